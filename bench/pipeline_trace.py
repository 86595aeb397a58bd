"""Traces in a Spark session of its own, for bench.pipeline: python -m bench.pipeline_trace FOLDER MASTER CORES COUNT…

Prints a JSON object: of each count the rows, CPU time and wall time. CORES: the whole session, JVM and workers, stays
on that number. Every session is a new process: a JVM that has compiled its code before would win any comparison.
"""

import json
import os
import sys
from dataclasses import replace
from pathlib import Path

from bench.processes import Cost, cost, peak_bytes
from tidings.pipeline.config import Config, load
from tidings.pipeline.jobs.registry import run_job
from tidings.pipeline.run import open_run
from tidings.pipeline.session import start_session

CONF = {"spark.driver.memory": "1500m", "spark.sql.files.maxPartitionBytes": "16m"}


def config_of(folder: Path) -> Config:
    return load(settings=[f"input={folder}/segments", f"output={folder}/tables"])


def trace(folder: Path, count: int) -> Cost:
    config = config_of(folder)
    asked = replace(config, trace=replace(config.trace, ids=str(folder / f"ids-{count}.parquet")))
    with open_run(asked) as run:
        return cost(count, lambda: run_job(run, "trace"))


def main() -> None:
    folder, master, cores, *counts = sys.argv[1:]
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: int(cores)])
    start_session(master, CONF)
    with open_run(config_of(Path(folder))) as run:
        ingested = cost(1, lambda: run_job(run, "ingest"))
    traces = [trace(Path(folder), int(count)).shown() for count in counts]
    print(json.dumps({"ingest": ingested.shown(), "traces": traces, "peak_mb": peak_bytes() / 1e6}))


if __name__ == "__main__":
    main()
