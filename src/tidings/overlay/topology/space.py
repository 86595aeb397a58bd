"""Hosts as points in a plane or on a sphere: the latency between any two is proportional to their distance.

These physical topologies have no links of their own. `latency_ms` is the metric from which trees are built and
which the simulator uses directly; `complete` turns it into a graph where one is wanted.

>>> from random import Random
>>> points = plane(3, Random(1))
>>> points.latency_ms(0, 1) == points.latency_ms(1, 0) > 0, len(list(points.complete().edges()))
(True, 3)
"""

import math
from dataclasses import dataclass
from random import Random

from tidings.errors import UsageError
from tidings.overlay.topology.graph import Graph, Node

LATENCY_MS_MIN = 0.01  # two points on the same spot still need some time


@dataclass(frozen=True, slots=True)
class Points:
    positions: tuple[tuple[float, ...], ...]
    latency_ms_max: float  # between the two points that could be farthest apart
    spherical: bool = False

    def __len__(self) -> int:
        return len(self.positions)

    def latency_ms(self, a: Node, b: Node) -> float:
        if not (isinstance(a, int) and isinstance(b, int)):
            raise UsageError("E_GRAPH_UNKNOWN", f"points must be given by number, not as {a!r} and {b!r}")
        p, q = self.positions[a], self.positions[b]
        if self.spherical:  # the arc between unit vectors; half a great circle is the farthest
            cosine = sum(x * y for x, y in zip(p, q, strict=True))
            share = math.acos(min(1.0, max(-1.0, cosine))) / math.pi
        else:
            share = math.dist(p, q) / math.sqrt(2)
        return max(LATENCY_MS_MIN, share * self.latency_ms_max)

    def complete(self) -> Graph:
        """Every pair linked: quadratic, for small sets."""
        graph = Graph()
        for a in range(len(self)):
            graph.add_node(a)
            for b in range(a):
                graph.add(b, a, self.latency_ms(a, b))
        return graph


def plane(count: int, rng: Random, latency_ms_max: float = 100.0) -> Points:
    """Uniform in the unit square."""
    return Points(tuple((rng.random(), rng.random()) for _ in range(count)), latency_ms_max)


def sphere(count: int, rng: Random, latency_ms_max: float = 150.0) -> Points:
    """Uniform on the unit sphere: height and angle are uniform."""

    def point() -> tuple[float, float, float]:
        height, angle = rng.uniform(-1, 1), rng.uniform(0, 2 * math.pi)
        radius = math.sqrt(1 - height * height)
        return (radius * math.cos(angle), radius * math.sin(angle), height)

    return Points(tuple(point() for _ in range(count)), latency_ms_max, spherical=True)
