"""What each heuristic of the table [tuning] is worth: CPU time per message with all of them and without each in turn.

    python -m bench.tuning [--runs 3]

The server runs on core 0, the load generator on core 1; points are measured with and without in turn, and the ratio is
that of the medians. Batching of links needs two brokers and is not covered: `network.gather_ms` sets its wait.
"""

import argparse
from typing import Any

from bench.before import measure, median_pair
from bench.broker_points import points
from bench.harness import save, table
from tidings.lab.connections import ConnectionLoad
from tidings.lab.generator import run
from tidings.lab.load_protocols import LoadPlan
from tidings.lab.servers import TidingsServer

POINTS = {
    "read_moderation": ("paced 5000", "paced 30000"),
    "delayed_acknowledgements": ("paced 5000", "paced 30000"),
    "rare_garbage_collection": ("persistent 1000 unconfirmed", "persistent one at a time"),
}


def compare(switch: str, runs: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    wanted = [one for one in points(full=False) if one.name in POINTS[switch]]
    with TidingsServer() as usual, TidingsServer(tuning={switch: False}) as without:
        for server in (usual, without):
            run(server, ConnectionLoad(LoadPlan("bench.warm"), warm_seconds=0.5, seconds=0.5))
        for number, point in enumerate(wanted):
            pairs = []
            for turn in range(runs):
                first = 2 * (number * runs + turn)
                pairs.append((measure(without, point, first), measure(usual, point, first + 1)))
            found[point.name] = median_pair(pairs, ("without", "with"))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3, help="measure each point so often (default: 3)")
    results = {switch: compare(switch, parser.parse_args().runs) for switch in POINTS}
    rows = [
        (
            switch,
            point,
            f"{row['without_us']:.2f}",
            f"{row['with_us']:.2f}",
            f"{row['with_us'] / row['without_us']:.2f}",
        )
        for switch, found in results.items()
        for point, row in found.items()
    ]
    table("CPU µs a message", ("heuristic", "point", "without", "with", "ratio"), rows)
    save("tuning", results)


if __name__ == "__main__":
    main()
