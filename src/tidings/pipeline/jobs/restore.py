"""Job `restore`: makes a table what it was at an earlier version, as a new version."""

from tidings.errors import UsageError
from tidings.pipeline.jobs.optimize import stored_tables
from tidings.pipeline.run import JobOutcome, JobRun


def restore_job(run: JobRun) -> list[JobOutcome]:
    name, version = run.config.restore.table, run.config.restore.version
    known = {f"{stored.place.parent.name}/{stored.table.name}": stored for stored in stored_tables(run)}
    if name not in known:
        raise UsageError("E_PIPELINE_INPUT", f"restore.table: {name!r} is no table; tables are {', '.join(known)}")
    made = known[name].restore(version)
    return [JobOutcome(name, f"restored to version {version}", made.rows, made.skipped)]
