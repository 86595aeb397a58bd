"""The plan that `--explain` prints: what a job would read, compute and write."""

from typing import Any

from tidings.model.tables import TABLES
from tidings.pipeline.jobs.ingest import listing
from tidings.pipeline.jobs.registry import JOBS
from tidings.pipeline.run import JobRun
from tidings.pipeline.stored_tables import clean_table


def explain_job(run: JobRun, name: str) -> list[dict[str, Any]]:
    """Describes the next run of a job; starts no Spark session."""
    plans = []
    for one in JOBS if name == "run" else [name]:
        job = JOBS[one]
        plan: dict[str, Any] = {"job": one, "computes": job.about, "reads": job.reads, "writes": job.writes}
        plan["ready"] = job.ready(run) or name != "run"
        if one == "ingest" and run.config.input:
            plan["new segments"] = {
                table: len(new)
                for table in TABLES
                if (new := listing(run.source, table, clean_table(run.output, table).manifest()).new)
            }
        plans.append(plan)
    return plans
