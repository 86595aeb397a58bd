"""The tree to route on: the minimum spanning tree of a broker's part of the overlay, the same for all brokers in it.

Every broker that knows the same links finds the same tree: edges are ordered by cost, then by their ends. The epoch
names the tree: 64 bits of hash of its edges, so brokers that see the same tree agree on the epoch without talking.

>>> tree = spanning_tree(1, [(1, 2, 1), (2, 3, 1), (1, 3, 5), (8, 9, 1)])
>>> tree.neighbours, sorted(tree.edges)
((2,), [(1, 2), (2, 3)])
>>> tree.epoch == spanning_tree(3, [(3, 2, 1), (2, 1, 1), (1, 3, 5)]).epoch
True
"""

from collections.abc import Iterable
from dataclasses import dataclass

from tidings.kernel.hash64 import hash64
from tidings.overlay.effects import Router


@dataclass(frozen=True, slots=True)
class SpanningTree:
    epoch: int
    edges: frozenset[tuple[Router, Router]]
    neighbours: tuple[Router, ...]


class _Parts:
    """Sets of connected nodes (union-find)."""

    def __init__(self) -> None:
        self._above: dict[Router, Router] = {}

    def of(self, node: Router) -> Router:
        above = self._above
        above.setdefault(node, node)
        while above[node] != node:
            above[node] = above[above[node]]
            node = above[node]
        return node

    def join(self, a: Router, b: Router) -> bool:
        """Connects two nodes; reports whether they were apart."""
        a, b = self.of(a), self.of(b)
        self._above[a] = b
        return a != b


def spanning_tree(router: Router, links: Iterable[tuple[Router, Router, int]]) -> SpanningTree:
    """The tree of this router's part; links are (end, end, cost), in any order and direction."""
    parts = _Parts()
    ordered = sorted({(cost, min(a, b), max(a, b)) for a, b, cost in links})
    chosen = [(a, b) for _, a, b in ordered if parts.join(a, b)]
    own = sorted((a, b) for a, b in chosen if parts.of(a) == parts.of(router))
    text = b"".join(a.to_bytes(4, "big") + b.to_bytes(4, "big") for a, b in own)
    neighbours = tuple(sorted(a + b - router for a, b in own if router in (a, b)))
    return SpanningTree(hash64(text, len(own)), frozenset(own), neighbours)
