"""Plans of faults for campaigns: rolling restarts, combined faults, healing."""

from collections.abc import Sequence
from random import Random

from tidings.overlay.topology.graph import Graph
from tidings.sim.faults import (
    Crash,
    CutLink,
    Fault,
    Freeze,
    FullDisk,
    HealLink,
    Partition,
    Reconfigure,
    Restart,
    Slow,
    SlowDisk,
    Thaw,
)
from tidings.sim.host import WRITE_MS


def rolling_change(nodes: Sequence[int], rng: Random, until_ms: float, share: float) -> list[tuple[float, Fault]]:
    """Restarts one broker after the other, in any order, each with another configuration; only a share of them."""
    chosen = rng.sample(list(nodes), max(1, round(share * len(nodes))))
    plan: list[tuple[float, Fault]] = []
    for at, node in zip(sorted(rng.uniform(0, until_ms) for _ in chosen), chosen, strict=True):
        plan += [(at, Reconfigure(node)), (at, Crash(node)), (at + rng.uniform(0, 400), Restart(node))]
    return plan


def combined_faults(graph: Graph, rng: Random, until_ms: float) -> list[tuple[float, Fault]]:
    """Faults that hide from plans of single ones: a frozen neighbour and a restart beside it, a cut under which a
    backlog grows and a restart of the broker that has it, a slow disk and links that are reconnected."""
    edge = rng.choice(list(graph.edges()))
    a, b = rng.sample((int(edge.a), int(edge.b)), 2)
    at = sorted(rng.uniform(0, until_ms) for _ in range(4))
    plans: tuple[tuple[Fault, Fault, Fault, Fault], ...] = (
        (Freeze(a), Crash(b), Restart(b), Thaw(a)),
        (CutLink(a, b), Crash(b), Restart(b), HealLink(a, b)),
        (SlowDisk(a, 400.0), CutLink(a, b), HealLink(a, b), SlowDisk(a, WRITE_MS)),
        (SlowDisk(a, 400.0), Freeze(b), Thaw(b), SlowDisk(a, WRITE_MS)),
    )
    return list(zip(at, rng.choice(plans), strict=True))


def healing(graph: Graph, nodes: Sequence[int]) -> list[Fault]:
    """The faults that end all others."""
    links = [(int(edge.a), int(edge.b)) for edge in graph.edges()]
    links += [(b, a) for a, b in links]
    faults: list[Fault] = [Partition(())]
    for a, b in links:
        faults += [HealLink(a, b), Slow(a, b, 0.0)]
    for node in nodes:
        faults += [SlowDisk(node, WRITE_MS), FullDisk(node, False), Thaw(node), Restart(node)]
    return faults
