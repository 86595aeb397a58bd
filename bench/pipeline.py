"""The pipeline end to end: ids traced, messages replayed, per second of CPU time, JVM and workers included.

python -m bench.pipeline [--quick] [--only trace|replay] [--folder FOLDER]

Trace: ids from a Parquet file, through 2000 filters of 128 KiB, to the tables traces and paths; cost over rows, and the
most memory all processes had. Replay: generated messages against 1 000 to 1 000 000 subscriptions, and the share of CPU
time in the kernel (decoding, matching, counting).

Speed-up from one core to two, by wall clock, so only a quiet machine tells. A task of Spark is more than one thread:
its JVM reads, compiles and writes while its Python worker computes, so `local[1]` on two cores uses more than one.
The ratio is therefore given against `local[1]` with all its processes on one core, and, beside it, on two. Each of them
is a process of its own, warmed up alike.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from bench.harness import save, table
from bench.pipeline_trace import CONF
from bench.processes import cost
from tidings.matching.workload import Workload
from tidings.pipeline.config import load
from tidings.pipeline.jobs import replay
from tidings.pipeline.jobs.generate import messages_of
from tidings.pipeline.jobs.registry import run_job
from tidings.pipeline.run import open_run
from tidings.pipeline.schemas import SUBSCRIPTIONS
from tidings.pipeline.session import start_session
from tidings.pipeline.storage_paths import StoragePath
from tidings.pipeline.stored_tables import clean_table

WARM = 200_000  # ids that are traced before anything is measured


def child(module: str, *arguments: object) -> str:
    told = [sys.executable, "-m", module, *map(str, arguments)]
    return subprocess.run(told, check=True, stdout=subprocess.PIPE, text=True).stdout


def session(folder: Path, master: str, cores: int, *counts: int) -> dict[str, Any]:
    """Times traces in a new session."""
    found: dict[str, Any] = json.loads(child("bench.pipeline_trace", folder, master, cores, *counts).splitlines()[-1])
    return found


def measure_trace(folder: Path, quick: bool) -> dict[str, object]:
    counts = [10**5, 10**6] if quick else [10**5, 10**6, 10**7]
    if not (folder / "segments").exists():
        child("bench.pipeline_data", folder, 1_840_000 if quick else 18_400_000, WARM, *counts)
    two = session(folder, "local[2]", 2, WARM, *counts, counts[-2], counts[-1])
    first, *costs = two["traces"]
    filters = clean_table(StoragePath.of(folder / "tables"), "histories").need().rows
    found: dict[str, Any] = {"filters": filters, "ingest": two["ingest"], "first": first}
    found |= {"traces": costs[: len(counts)], "again": costs[len(counts) :], "peak_mb": two["peak_mb"]}
    rows = [(f"{one['rows']:.0e}", one["cpu_s"], one["wall_s"], one["per_cpu_s"]) for one in costs]
    table(f"trace, {filters} filters", ("ids", "CPU s", "wall s", "ids / CPU s"), rows)
    two_cores = costs[-1]["wall_s"]
    rows = []
    for name, cores in (("one_core", 1), ("one_task_two_cores", 2)):
        one = session(folder, "local[1]", cores, WARM, *counts, counts[-2], counts[-1])["traces"][-1]
        found[name] = one | {"speed_up": one["wall_s"] / two_cores}
        rows.append((name, one["wall_s"], two_cores, found[name]["speed_up"]))
    table(f"speed-up, {counts[-1]:.0e} ids", ("local[1]", "wall s", "local[2] wall s", "ratio"), rows)
    return found


def measure_replay(folder: Path, quick: bool) -> list[dict[str, object]]:
    plan = (
        [(1_000, 200_000), (100_000, 50_000)]
        if quick
        else [(1_000, 1_000_000), (100_000, 200_000), (1_000_000, 50_000)]
    )
    found = []
    spark = start_session("local[2]", CONF)
    for subscriptions, messages in plan:
        drawn = [f"generate.messages={messages}", f"generate.subscriptions={subscriptions}"]
        settings = [
            f"output={folder}/replay-{subscriptions}",
            "replay.messages=generated",
            "replay.covering_max=0",
            *drawn,
        ]
        with open_run(load(settings=settings)) as run:
            run_job(run, "generate")
            warm = cost(messages, lambda run=run: run_job(run, "replay"))  # type: ignore[misc]
            again = replace(run.config, replay=replace(run.config.replay, name="again"))  # workers have their matcher
        with open_run(again) as run:
            one = cost(messages, lambda run=run: run_job(run, "replay"))  # type: ignore[misc]
            kernel_s = kernel_seconds(run.generated(SUBSCRIPTIONS).paths(), min(messages, 20_000))
        share = kernel_s * messages / one.cpu_s
        found.append({"subscriptions": subscriptions, "first": warm.shown(), **one.shown(), "kernel_share": share})
    spark.stop()
    rows = [(one["subscriptions"], one["rows"], one["cpu_s"], one["per_cpu_s"], one["kernel_share"]) for one in found]
    table("replay", ("subscriptions", "messages", "CPU s", "messages / CPU s", "share in the kernel"), rows)
    return found


def kernel_seconds(folders: list[StoragePath], messages: int) -> float:
    """CPU time in the kernel alone, for one message."""
    replayer = replay.Replayer(replay.ReplaySubscriptions.read(folders))
    column = pa.array(messages_of(Workload(1, conjunctions=1).encoded_messages(0, messages)), pa.binary())
    replay.SPENT["kernel"] = 0.0
    replayer.match_column(column, replayer.counting())
    return replay.SPENT["kernel"] / messages


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer rows")
    parser.add_argument("--only", choices=["trace", "replay"], help="one of the two")
    parser.add_argument("--folder", type=Path, help="where data is made, and found if it was")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = arguments.folder or Path(name)
        for part, measure in (("trace", measure_trace), ("replay", measure_replay)):
            if arguments.only in (None, part):
                load = os.getloadavg()[0]
                found = measure(folder, arguments.quick)
                about = {"load_before": load, "load_after": os.getloadavg()[0], "quick": arguments.quick}
                print(save(f"pipeline_{part}", about | {part: found}))


if __name__ == "__main__":
    main()
