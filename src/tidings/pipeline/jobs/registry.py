"""Jobs of the pipeline: name, inputs, outputs, and the condition under which `run` includes them."""

from collections.abc import Callable
from dataclasses import dataclass

from tidings.errors import UsageError
from tidings.pipeline.config import JOB_NAMES
from tidings.pipeline.jobs.check import check_job
from tidings.pipeline.jobs.compact import compact_job
from tidings.pipeline.jobs.fit import fit_job
from tidings.pipeline.jobs.generate import generate_job
from tidings.pipeline.jobs.ingest import ingest_job
from tidings.pipeline.jobs.measure import measure_job
from tidings.pipeline.jobs.migrate import migrate_job
from tidings.pipeline.jobs.optimize import optimize_job, stored_tables
from tidings.pipeline.jobs.replay import replay_job
from tidings.pipeline.jobs.report import READS, report_job
from tidings.pipeline.jobs.restore import restore_job
from tidings.pipeline.jobs.sweep import sweep_job
from tidings.pipeline.jobs.trace import trace_job
from tidings.pipeline.run import JobOutcome, JobRun
from tidings.pipeline.schemas import SUBSCRIPTIONS


@dataclass(frozen=True, slots=True)
class Job:
    work: Callable[[JobRun], list[JobOutcome]]
    about: str
    reads: str
    writes: str
    ready: Callable[[JobRun], bool] = lambda _: True  # whether `run` takes it along


def _has(*names: str) -> Callable[[JobRun], bool]:
    return lambda run: run.has(*names)


JOBS: dict[str, Job] = {
    "ingest": Job(ingest_job, "check segments, drop copies", "segments", "clean/*", lambda run: bool(run.config.input)),
    "check": Job(check_job, "check the quality of clean tables", "clean/*", "results/quality", lambda run: False),
    "compact": Job(compact_job, "merge neighbouring filters", "clean/histories", "clean/compacted", _has("histories")),
    "trace": Job(
        trace_job,
        "where messages went",
        "ids, clean/histories, clean/attachments",
        "results/traces, results/paths",
        lambda run: _has("histories", "attachments")(run) and (bool(run.config.trace.ids) or _has("messages")(run)),
    ),
    "generate": Job(generate_job, "draw a workload", "a seed", "generated/*", lambda run: False),
    "replay": Job(
        replay_job,
        "match messages again",
        "messages, subscriptions",
        "results/matches, grades, destinations, router_shares, moments",
        lambda run: (
            (run.config.replay.subscriptions != "generated" or run.generated(SUBSCRIPTIONS).manifest() is not None)
            and (bool(run.config.replay.messages) or _has("messages")(run))
        ),
    ),
    "measure": Job(
        measure_job,
        "judge runs, average",
        "clean/runs, clean/samples, clean/simulations",
        "results/verdicts, throughput, simulated",
        lambda run: _has("runs", "samples")(run) or _has("simulations")(run),
    ),
    "fit": Job(
        fit_job,
        "fit processing-time models",
        "results/throughput",
        "results/fits, predictions",
        lambda run: run.result("throughput").manifest() is not None,
    ),
    "sweep": Job(
        sweep_job, "run the simulator", "a scenario", "results/sweeps", lambda run: bool(run.config.sweep.scenario)
    ),
    "report": Job(
        report_job,
        "draw figures, write a page",
        "results/*",
        "report",
        lambda run: any(run.result(name).manifest() is not None for name in READS),
    ),
    "optimize": Job(
        optimize_job,
        "rewrite small files, remove old ones",
        "all tables",
        "the same rows",
        lambda run: any(stored.manifest() is not None for stored in stored_tables(run)),
    ),
    "restore": Job(restore_job, "go back to a version", "a table", "the table", lambda run: False),
    "migrate": Job(migrate_job, "convert an earlier layout", "all tables", "all tables", lambda run: False),
}


assert tuple(JOBS) == JOB_NAMES


def run_job(run: JobRun, name: str) -> list[JobOutcome]:
    """Runs one job, or with `run` all that have inputs, in the order of their dependencies."""
    if name != "run":
        return JOBS[name].work(run)
    made = [outcome for job in JOBS.values() if job.ready(run) for outcome in job.work(run)]
    if not made:
        raise UsageError("E_PIPELINE_INPUT", f"no job has anything to read: no input, and no table in {run.output.uri}")
    return made
