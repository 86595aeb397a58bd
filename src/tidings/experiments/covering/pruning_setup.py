"""Set-up of the experiments on pruning: the 55 brokers, and subscriptions that cover each other.

    A ─ B ─ C ─ D ─ E      core: 1 to 5; the publishers' three edge brokers, 24 to 26, are under E
    │   │   │   │   │
    ·   ·   ·   ·   ·      inner: one under each core broker,
   ···  ··· ··· ··· ·      and under these three more (one at E): 6 to 23
    edge: two or three under each of the lower inner brokers (one at E): 27 to 55

The paper prints this topology as a picture only; the counts are its own.

Subscriptions come in *families*: a root that matches all of its class, `degree` children, each six tenths of the
root's range, spread evenly, and grandchildren, each within some child. No child covers another and together they are
the root, so taking the root back makes exactly `degree` new roots: the covering degree.
"""

from dataclasses import dataclass
from random import Random

from tidings.model.constraint import Constraint, Op
from tidings.model.predicate import Predicate
from tidings.overlay.topology.graph import Graph

CORE = range(1, 6)
INNER = range(6, 24)
EDGE = range(24, 56)
PUBLISHERS = range(24, 27)
SUBSCRIBERS = range(27, 56)
EDGES_EACH = ((3, 2, 2), (3, 2, 2), (3, 2, 2), (3, 2, 2), (1,))  # of each lower inner broker, from A to E
X_MAX = 1_000_000
NARROW = X_MAX * 6 // 10  # so that most of what a root receives is wanted by most of its family
PROBE = "probe"


def tier(router: int) -> str:
    return "core" if router in CORE else "inner" if router in INNER else "edge"


LATENCY_MS = 1.0  # of each link


def brokers_55() -> Graph:
    graph = Graph()
    for core in CORE[:-1]:
        graph.add(core, core + 1, LATENCY_MS)
    for publisher in PUBLISHERS:
        graph.add(CORE[-1], publisher, LATENCY_MS)
    inner, edges = iter(INNER), iter(SUBSCRIBERS)
    for core, hosts in zip(CORE, EDGES_EACH, strict=True):
        upper = next(inner)
        graph.add(core, upper, LATENCY_MS)
        for count in hosts:
            lower = next(inner)
            graph.add(upper, lower, LATENCY_MS)
            for _ in range(count):
                graph.add(lower, next(edges), LATENCY_MS)
    return graph


def clusters(rng: Random) -> list[list[int]]:
    """The subscribers' brokers in groups of two to four that are next to each other."""
    ordered = list(SUBSCRIBERS)
    found: list[list[int]] = []
    while ordered:
        size = rng.randint(2, 4)
        size = len(ordered) if len(ordered) - size < 2 else size
        found.append(ordered[:size])
        ordered = ordered[size:]
    return found


@dataclass(frozen=True, slots=True)
class SubscriptionSet:
    """A subscription of the workload and where it is made."""

    router: int
    filter: Predicate
    family: int
    root: bool


def of_class(name: str, low: int = 0, high: int = X_MAX) -> Predicate:
    bounds = (Constraint("x", Op.GE, low), Constraint("x", Op.LE, high))
    return Predicate.of(Constraint("class", Op.EQ, name), *bounds)


def families(count: int, number: int, degree: int, rng: Random, clustered: bool) -> list[SubscriptionSet]:
    """`count` subscriptions of this number of families, in a random order."""
    regions = clusters(rng) if clustered else [list(SUBSCRIBERS)]
    found: list[SubscriptionSet] = []
    for family in range(number):
        region = rng.choice(regions)
        ranges = [(0, X_MAX)]
        ranges += [(low := child * (X_MAX - NARROW) // max(1, degree - 1), low + NARROW) for child in range(degree)]
        while len(ranges) < (count + family) // number:  # the remainder goes to the last ones
            low, _ = ranges[rng.randint(1, degree)]
            width = rng.randrange(NARROW // 2, NARROW)
            start = low + rng.randrange(NARROW - width)
            ranges.append((start, start + width))
        for place, (low, high) in enumerate(ranges):
            found.append(SubscriptionSet(rng.choice(region), of_class(f"c{family}", low, high), family, place == 0))
    rng.shuffle(found)
    return found


def popular_x(rng: Random) -> int:
    """A published value: mostly in the middle, where most subscriptions of a family match."""
    return min(X_MAX, max(0, round(rng.gauss(0.5, 0.15) * X_MAX)))
