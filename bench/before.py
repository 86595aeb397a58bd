"""This checkout's broker beside another one's, such as the previous commit's: CPU time per message, as ratios.

    git worktree add ../before HEAD~1 && make -C ../before setup
    python -m bench.before ../before/.venv/bin/python [--runs 3]

The server runs on core 0, the load generator on core 1. Points are measured on both in turn, several times; the ratio
is that of the medians.
"""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from statistics import median
from typing import Any

from bench.broker_points import Point, points
from bench.harness import save
from tidings.lab.connections import ConnectionLoad
from tidings.lab.generator import run
from tidings.lab.load_protocols import LoadPlan
from tidings.lab.servers import TidingsServer, TidingsStompServer

POINTS = ("grid b=0 r=1 n=0", "grid b=0 r=10 n=0", "grid b=0 r=40 n=0", "paced 5000", "paced 30000")
STORED = ("persistent 1000 unconfirmed", "persistent one at a time")


def measure(server: TidingsServer, point: Point, number: int) -> tuple[float, float]:
    """Microseconds of CPU time for a message, and messages a second."""
    load = point.load(replace(point.plan, topic=f"bench.{number}"), {}, {})
    result = run(server, load)
    return result["cpu_us"], result["received_per_s"]


def median_pair(
    pairs: Sequence[tuple[tuple[float, float], tuple[float, float]]], names: tuple[str, str]
) -> dict[str, float]:
    """The medians of what `measure` found at two servers."""
    return {
        f"{name}_{unit}": median(pair[which][place] for pair in pairs)
        for place, unit in enumerate(("us", "per_s"))
        for which, name in enumerate(names)
    }


def compare(kind: type[TidingsServer], before: str, wanted: list[Point], runs: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    number = 0
    with kind() as new, kind(python=before) as old:
        for server in (new, old):
            run(server, ConnectionLoad(LoadPlan("bench.warm"), warm_seconds=0.5, seconds=0.5))
        for point in wanted:
            pairs = []
            for _ in range(runs):
                number += 2
                pairs.append((measure(old, point, number), measure(new, point, number + 1)))
            row = found[point.name] = median_pair(pairs, ("before", "now"))
            cpu, rate = (row["before_us"], row["now_us"]), (row["before_per_s"], row["now_per_s"])
            print(
                f"{kind.name:14} {point.name:28} {cpu[0]:8.3f} -> {cpu[1]:8.3f} µs ({cpu[1] / cpu[0]:.3f})   "
                f"{rate[0]:10,.0f} -> {rate[1]:10,.0f}/s ({rate[1] / rate[0]:.3f})",
                flush=True,
            )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("python", help="the interpreter of the other checkout's virtual environment")
    parser.add_argument("--runs", type=int, default=3, help="measure each point so often (default: 3)")
    parser.add_argument("--match", default="", help="only points whose name contains this")
    arguments = parser.parse_args()
    wanted = [one for one in points(full=False) if one.name in POINTS + STORED and arguments.match in one.name]
    results = {kind.name: compare(kind, arguments.python, wanted, arguments.runs) for kind in SERVERS}
    save("before", results)


SERVERS: tuple[type[TidingsServer], ...] = (TidingsServer, TidingsStompServer)

if __name__ == "__main__":
    main()
