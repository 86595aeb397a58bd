"""Pan against Pastry's promises: hops to a key near log16 N, messages to join near a multiple of log N.

python -m bench.pan
"""

import math
from concurrent.futures import ProcessPoolExecutor
from random import Random
from statistics import mean

from bench.harness import RESULTS, save, table
from tidings.overlay.pan import PanOptions
from tidings.overlay.topology.space import plane
from tidings.sim.pan import PanNetwork

SIZES = (50, 100, 200, 500, 1000, 2000, 5000)
KEYS = 5000
LAST_JOINS = 20  # what joining costs is counted over the last newcomers of each size


def measure(nodes: int, leaves: int, seed: int) -> dict[str, float]:
    rng = Random(seed)
    network = PanNetwork(plane(nodes, rng).latency_ms, rng, options=PanOptions(leaves=leaves))
    network.grow(list(range(nodes - LAST_JOINS)))
    before = sum(network.messages.values())
    network.grow(list(range(nodes - LAST_JOINS, nodes)))
    joining = (sum(network.messages.values()) - before) / LAST_JOINS
    hops, astray = [], 0
    for number in range(KEYS):
        key = rng.randrange(network.space.size)
        path = network.path(rng.randrange(nodes), key)
        hops.append(len(path) - 1)
        astray += number < 200 and path[-1] != network.closest(key)
    neighbours = mean(len(node.neighbours()) for node in network.nodes.values())
    ratio = mean(hops) / math.log(nodes, 16)
    return {
        "nodes": nodes,
        "leaves": leaves,
        "hops": mean(hops),
        "log16": math.log(nodes, 16),
        "ratio": ratio,
        "astray": astray,
        "neighbours": neighbours,
        "join_messages": joining,
        "join_messages_a_log16": joining / math.log(nodes, 16),
    }


def means(found: list[dict[str, float]]) -> dict[str, float]:
    """Of several networks of one size; how many, and how many keys went astray in all of them."""
    row = {name: mean(one[name] for one in found) for name in found[0]}
    return row | {"networks": len(found), "astray": sum(one["astray"] for one in found)}


def main() -> None:
    """Largest first, two at a time. With few nodes chance matters: three networks."""
    points = [(nodes, leaves) for nodes in reversed(SIZES) for leaves in (4, 8)]
    with ProcessPoolExecutor(2) as pool:
        running = {
            (nodes, leaves): [
                pool.submit(measure, nodes, leaves, seed) for seed in (1, 2, 3)[: 3 if nodes < 1000 else 1]
            ]
            for nodes, leaves in points
        }
        found = {point: means([one.result() for one in some]) for point, some in running.items()}
    rows = [found[nodes, leaves] for leaves in (4, 8) for nodes in SIZES]
    table("Pan, 4 digits of base 16", list(rows[0]), [list(row.values()) for row in rows])
    save("pan", {"rows": rows})
    plot(rows)


def plot(rows: list[dict[str, float]]) -> None:
    from matplotlib import pyplot

    figure, (hops, joins) = pyplot.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    for leaves in (4, 8):
        own = [row for row in rows if row["leaves"] == leaves]
        sizes = [row["nodes"] for row in own]
        hops.plot(sizes, [row["hops"] for row in own], "o-", label=f"leaf set {leaves}")
        joins.plot(sizes, [row["join_messages"] for row in own], "o-", label=f"leaf set {leaves}")
    hops.plot(SIZES, [math.log(nodes, 16) for nodes in SIZES], "k--", label="log₁₆ N")
    for axes, title in ((hops, "hops to a key"), (joins, "messages to join")):
        axes.set_xscale("log")
        axes.set_xlabel("nodes")
        axes.set_title(title)
        axes.legend()
    figure.savefig(RESULTS / "pan.png", dpi=110)


if __name__ == "__main__":
    main()
