"""The pipeline end to end: ids traced, messages replayed, per second of CPU time, JVM and workers included.

python -m bench.pipeline [--quick]

Trace: ids from a Parquet file, through 2000 filters of 128 KiB, to the tables traces and paths. Replay: generated
messages against 1 000 to 1 000 000 subscriptions. Cost over rows, speed-up from one core to two (by wall clock, so only
a quiet machine tells), and the most memory all processes had.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from bench.harness import save, table
from bench.processes import cpu_seconds, peak_bytes
from tidings.matching.workload import Workload
from tidings.pipeline import jobs, replay
from tidings.pipeline.config import Config, load
from tidings.pipeline.places import Place
from tidings.pipeline.schemas import SUBSCRIPTIONS
from tidings.pipeline.session import start_session

WARM = 200_000  # ids that are traced before anything is measured
CONF = {"spark.driver.memory": "1500m", "spark.sql.files.maxPartitionBytes": "16m"}


@dataclass(frozen=True, slots=True)
class Cost:
    rows: int
    cpu_s: float
    wall_s: float

    @property
    def per_cpu_s(self) -> float:
        return self.rows / self.cpu_s


def cost(rows: int, work: Callable[[], object]) -> Cost:
    cpu, wall = cpu_seconds(), time.perf_counter()
    work()
    return Cost(rows, cpu_seconds() - cpu, time.perf_counter() - wall)


def shown(one: Cost) -> dict[str, float]:
    return asdict(one) | {"per_cpu_s": one.per_cpu_s}


def trace(config: Config, folder: Path, count: int) -> Cost:
    asked = replace(config, trace=replace(config.trace, ids=str(folder / f"ids-{count}.parquet")))
    with jobs.opened(asked) as run:
        return cost(count, lambda: jobs.work(run, "trace"))


def measure_trace(folder: Path, quick: bool) -> dict[str, object]:
    counts = [10**5, 10**6] if quick else [10**5, 10**6, 10**7]
    messages = 1_840_000 if quick else 18_400_000
    told = [
        str(folder),
        str(messages),
        str(WARM),
        *map(str, counts),
    ]  # in a process of its own: its memory is not Spark's
    made = subprocess.run([sys.executable, "-m", "bench.pipeline_data", *told], check=True, stdout=subprocess.PIPE)
    filters = int(made.stdout)
    found: dict[str, object] = {"filters": filters}
    config = load(settings=[f"input={folder}/segments", f"output={folder}/tables"])
    spark = start_session("local[2]", CONF)
    with jobs.opened(config) as run:
        found["ingest"] = shown(cost(filters, lambda: jobs.work(run, "ingest")))
    cold = trace(config, folder, WARM)  # workers start and load filters
    costs = [trace(config, folder, count) for count in counts]
    found |= {"first": shown(cold), "traces": [shown(one) for one in costs], "peak_mb": peak_bytes() / 1e6}
    rows = [(f"{one.rows:.0e}", one.cpu_s, one.wall_s, one.per_cpu_s) for one in costs]
    table(f"trace, {filters} filters", ("ids", "CPU s", "wall s", "ids / CPU s"), rows)
    save("pipeline", {"trace": found})
    spark.stop()
    spark = start_session("local[1]", CONF)
    trace(config, folder, WARM)
    one_core = trace(config, folder, counts[1])
    found |= {"one_core": shown(one_core), "speed_up": one_core.wall_s / costs[1].wall_s}
    table(
        "speed-up",
        ("local[1] wall s", "local[2] wall s", "ratio"),
        [(one_core.wall_s, costs[1].wall_s, found["speed_up"])],
    )
    spark.stop()
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
        with jobs.opened(load(settings=settings)) as run:
            jobs.work(run, "generate")
            warm = cost(messages, lambda run=run: jobs.work(run, "replay"))  # type: ignore[misc]
            again = replace(run.config, replay=replace(run.config.replay, name="again"))  # workers have their matcher
        with jobs.opened(again) as run:
            one = cost(messages, lambda run=run: jobs.work(run, "replay"))  # type: ignore[misc]
            kernel_s = kernel_seconds(run.generated(SUBSCRIPTIONS).folders(), min(messages, 20_000))
        share = kernel_s * messages / one.cpu_s
        found.append({"subscriptions": subscriptions, "first": shown(warm), **shown(one), "kernel_share": share})
    spark.stop()
    rows = [(one["subscriptions"], one["rows"], one["cpu_s"], one["per_cpu_s"], one["kernel_share"]) for one in found]
    table("replay", ("subscriptions", "messages", "CPU s", "messages / CPU s", "share in the kernel"), rows)
    return found


def kernel_seconds(folders: list[Place], messages: int) -> float:
    """CPU time of the matcher alone, for one message."""
    replayer = replay.Replayer(replay.Subscriptions.read(folders))
    data = Workload(1, conjunctions=1).encoded_messages(0, messages)
    encoded, at = [], 0
    while at < len(data):
        end = at + 4 + int.from_bytes(data[at : at + 4], "little")
        encoded.append(data[at + 4 : end])
        at = end
    replay.SPENT["kernel"] = 0.0
    replayer.match(encoded, replayer.tally())
    return replay.SPENT["kernel"] / messages


def main() -> None:
    quick = "--quick" in sys.argv
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        busy = os.getloadavg()[0]
        results: dict[str, object] = {"load_before": busy, "quick": quick, "trace": measure_trace(folder, quick)}
        save("pipeline", results)
        results["replay"] = measure_replay(folder, quick)
        results["load_after"] = os.getloadavg()[0]
        print(save("pipeline", results))


if __name__ == "__main__":
    main()
