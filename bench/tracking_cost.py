"""Cost of tracking in a broker: throughput and CPU time with `bloom` and `async` beside `none`, in one run.

    python -m bench.tracking_cost            all points, three rounds
    python -m bench.tracking_cost --quick    fewer points, one round

Strategies take turns within each round, so that what disturbs the machine disturbs all. A message is recorded when it
is accepted and again for each delivery: with r subscribers it is in 1 + r histories.
"""

import argparse
import statistics
import time
from dataclasses import replace
from itertools import count
from typing import Any

from bench.harness import save, table
from tidings.kernel.codec import encode_message
from tidings.lab.connections import ConnectionLoad
from tidings.lab.generator import run
from tidings.lab.load_protocols import LoadPlan, NativeLoad
from tidings.lab.servers import TidingsServer
from tidings.model.codec import encode_frame
from tidings.model.destination import Destination
from tidings.model.message import Message
from tidings.model.message_id import MessageId
from tidings.protocols.native.frames import FrameType

# Blocks are sent again and again, so their ids grow old: they must not count as stragglers.
OLD = {"skew_ms": 600_000, "skew_between_brokers_ms": 1_000_000}
STRATEGIES: dict[str, dict[str, object] | None] = {
    "none": None,
    "runs": {"strategy": "runs", **OLD},
    "bloom": {"strategy": "bloom", **OLD},
    "async": {"strategy": "async", **OLD},
}
BIG = b"x" * 1000
IDS = 150_000  # before they are sent again: more than a filter takes, or all filters would be the same
WARM_SECONDS, SECONDS = 3.0, 4.0  # the first segment that a process writes costs it a tenth of a second
POINTS = {
    "no body, r = 1": ConnectionLoad(LoadPlan("")),
    "no body, r = 10": ConnectionLoad(LoadPlan(""), matching=10),
    "no body, r = 40": ConnectionLoad(LoadPlan(""), matching=40),
    "1000 bytes, r = 1": ConnectionLoad(LoadPlan("", BIG)),
    "1000 bytes, r = 10": ConnectionLoad(LoadPlan("", BIG), matching=10),
    "1000 bytes, r = 40": ConnectionLoad(LoadPlan("", BIG), matching=40),
    "receipts, 10 a send": ConnectionLoad(LoadPlan("", receipts=True), block=10),
}
QUICK = ("no body, r = 1", "no body, r = 10", "no body, r = 40", "1000 bytes, r = 1", "receipts, 10 a send")


class Now(NativeLoad):
    """Messages with ids of this time, each from another publisher."""

    def __init__(self) -> None:
        self._publishers = count(1)

    def block(self, plan: LoadPlan, count: int) -> bytes:
        now_ms = time.time_ns() // 1_000_000
        message = Message(Destination(plan.topic), dict(plan.properties), plan.body)
        frames = []
        for number in range(1, count + 1):
            one = encode_message(replace(message, id=MessageId(next(self._publishers), 1, now_ms, number)))
            receipt = (number if plan.receipts else 0).to_bytes(4, "little")
            frames.append(encode_frame(FrameType.PUBLISH, receipt + one))
        return b"".join(frames)


class Tracked(TidingsServer):
    wire = Now()


def measure(names: list[str], rounds: int) -> dict[str, Any]:
    results: dict[str, dict[str, list[dict[str, Any]]]] = {name: {one: [] for one in STRATEGIES} for name in names}
    for round in range(rounds):
        for number, name in enumerate(names):
            for strategy, keys in STRATEGIES.items():
                with Tracked(keys) as server:
                    plan = replace(POINTS[name].plan, topic=f"bench.{number}")
                    load = replace(POINTS[name], plan=plan, warm_seconds=WARM_SECONDS, seconds=SECONDS)
                    load = replace(load, blocks=IDS // load.block)
                    found = run(server, load)
                results[name][strategy].append(found)
                rate, cpu = found["received_per_s"], found["cpu_us"]
                print(f"{round + 1}/{rounds} {name:22} {strategy:6} {rate:12,.0f}/s {cpu:8.3f} µs", flush=True)
    return results


def summary(results: dict[str, Any]) -> list[dict[str, Any]]:
    rows = []
    for name, by_strategy in results.items():
        cpu = {one: statistics.median(run["cpu_us"] for run in runs) for one, runs in by_strategy.items()}
        rate = {one: statistics.median(run["received_per_s"] for run in runs) for one, runs in by_strategy.items()}
        row: dict[str, Any] = {"point": name, "none_per_s": rate["none"], "none_cpu_us": cpu["none"]}
        for one in ("runs", "bloom", "async"):
            row[f"{one}_cpu"] = cpu[one] / cpu["none"]
            row[f"{one}_rate"] = rate[one] / rate["none"]
        rows.append(row)
    return rows


def overall(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Over all points, each counting alike: the geometric mean of the ratios."""
    names = [f"{one}_{what}" for one in ("runs", "bloom", "async") for what in ("cpu", "rate")]
    return {name: statistics.geometric_mean(row[name] for row in rows) for name in names}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rounds", type=int, default=0)
    arguments = parser.parse_args()
    rounds = arguments.rounds or (1 if arguments.quick else 3)
    results = measure(list(QUICK if arguments.quick else POINTS), rounds)
    rows = summary(results)
    columns, all_points = tuple(rows[0]), overall(rows)
    lines = [*rows, {"point": "all, geometric mean", **all_points}]
    table("relative to none: CPU time, throughput", columns, [[line.get(c, "") for c in columns] for line in lines])
    print("written to", save("tracking_cost", {"rows": rows, "all": all_points, "runs": results}))


if __name__ == "__main__":
    main()
