"""Undirected graphs of brokers or hosts: nodes are ints or names, edges have a latency and a bandwidth.

Iteration follows insertion, so every result is the same in every run. Distances are sums of latencies; hops count
edges. `None` as a bandwidth means that the link never queues.

>>> graph = Graph()
>>> _ = graph.add(1, 2, latency_ms=5), graph.add(2, 3, latency_ms=5), graph.add(1, 3, latency_ms=20)
>>> shortest_path(graph, 1, 3), distances(graph, 1)[3], diameter(graph)
([1, 2, 3], 10.0, 1)
"""

import heapq
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tidings.errors import UsageError

Node: TypeAlias = int | str
Metric: TypeAlias = Callable[[Node, Node], float]


@dataclass(frozen=True, slots=True)
class Edge:
    a: Node
    b: Node
    latency_ms: float = 1.0
    bandwidth_bytes_s: float | None = None


class Graph:
    def __init__(self) -> None:
        self._neighbours: dict[Node, dict[Node, Edge]] = {}
        self.areas: dict[Node, int] = {}  # of two-level topologies: the autonomous system of each node

    def add_node(self, node: Node) -> None:
        self._neighbours.setdefault(node, {})

    def add(self, a: Node, b: Node, latency_ms: float = 1.0, bandwidth_bytes_s: float | None = None) -> Edge:
        """Add an edge, and its ends where they are new."""
        if a == b:
            raise UsageError("E_GRAPH_LOOP", f"an edge cannot link {a} to itself")
        if a in self._neighbours and b in self._neighbours[a]:
            raise UsageError("E_GRAPH_DUPLICATE", f"an edge between {a} and {b} exists already")
        if not 0 <= latency_ms < float("inf"):
            raise UsageError(
                "E_GRAPH_LATENCY", f"latency_ms between {a} and {b} must be finite and at least 0, not {latency_ms}"
            )
        if bandwidth_bytes_s is not None and not 0 < bandwidth_bytes_s < float("inf"):
            reason = f"bandwidth_bytes_s between {a} and {b} must be finite and above 0, not {bandwidth_bytes_s}"
            raise UsageError("E_GRAPH_BANDWIDTH", reason)
        edge = Edge(a, b, float(latency_ms), None if bandwidth_bytes_s is None else float(bandwidth_bytes_s))
        self._neighbours.setdefault(a, {})[b] = edge
        self._neighbours.setdefault(b, {})[a] = edge
        return edge

    def remove(self, a: Node, b: Node) -> None:
        if b not in self._neighbours.get(a, {}):
            raise UsageError("E_GRAPH_UNKNOWN", f"no edge between {a} and {b}")
        del self._neighbours[a][b], self._neighbours[b][a]

    def neighbours(self, node: Node) -> dict[Node, Edge]:
        try:
            return self._neighbours[node]
        except KeyError:
            raise UsageError("E_GRAPH_UNKNOWN", f"no node {node}") from None

    def edges(self) -> Iterator[Edge]:
        """Each edge once, in the order of its first end."""
        for node, found in self._neighbours.items():
            yield from (edge for edge in found.values() if edge.a == node)

    def has(self, a: Node, b: Node) -> bool:
        return b in self._neighbours.get(a, {})

    def __iter__(self) -> Iterator[Node]:
        return iter(self._neighbours)

    def __contains__(self, node: Node) -> bool:
        return node in self._neighbours

    def __len__(self) -> int:
        return len(self._neighbours)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Graph):
            return NotImplemented
        mine, theirs = (
            {(frozenset((e.a, e.b)), e.latency_ms, e.bandwidth_bytes_s) for e in g.edges()} for g in (self, other)
        )
        return set(self) == set(other) and mine == theirs and self.areas == other.areas

    __hash__ = None  # type: ignore[assignment]  # mutable


def _latency(edge: Edge) -> float:
    return edge.latency_ms


def _search(graph: Graph, source: Node, weight: Callable[[Edge], float]) -> tuple[dict[Node, float], dict[Node, Node]]:
    """Dijkstra: distance and predecessor of every node that can be reached. The first of equal paths wins."""
    graph.neighbours(source)
    best: dict[Node, float] = {source: 0.0}
    before: dict[Node, Node] = {}
    done: set[Node] = set()
    heap: list[tuple[float, int, Node]] = [(0.0, 0, source)]
    number = 0  # decides ties: nodes may be ints and names, which have no common order
    while heap:
        far, _, node = heapq.heappop(heap)
        if node in done:
            continue
        done.add(node)
        for other, edge in graph.neighbours(node).items():
            length = far + weight(edge)
            if other not in best or length < best[other]:
                best[other], before[other] = length, node
                number += 1
                heapq.heappush(heap, (length, number, other))
    return best, before


def distances(graph: Graph, source: Node, weight: Callable[[Edge], float] = _latency) -> dict[Node, float]:
    """Distance to every node that can be reached; by default the sum of latencies."""
    return _search(graph, source, weight)[0]


def shortest_path(graph: Graph, source: Node, target: Node) -> list[Node]:
    """The nodes of a path with the least latency, both ends included."""
    before = _search(graph, source, _latency)[1]
    if target != source and target not in before:
        raise UsageError("E_GRAPH_UNREACHABLE", f"no path from {source} to {target}")
    path = [target]
    while path[-1] != source:
        path.append(before[path[-1]])
    return path[::-1]


def shortest_tree(graph: Graph, source: Node) -> dict[Node, Node]:
    """The predecessor of every other reachable node on its path of least latency from `source`."""
    return _search(graph, source, _latency)[1]


def hops(graph: Graph, source: Node) -> dict[Node, int]:
    """The number of edges to every node that can be reached."""
    found = {source: 0}
    queue = deque([source])
    while queue:
        node = queue.popleft()
        for other in graph.neighbours(node):
            if other not in found:
                found[other] = found[node] + 1
                queue.append(other)
    return found


def components(graph: Graph) -> list[set[Node]]:
    left = dict.fromkeys(graph)
    found = []
    while left:
        part = set(hops(graph, next(iter(left))))
        found.append(part)
        left = {node: None for node in left if node not in part}
    return found


def is_connected(graph: Graph) -> bool:
    return len(components(graph)) <= 1


def diameter(graph: Graph) -> int:
    """The greatest number of hops between two nodes."""
    if not is_connected(graph):
        raise UsageError("E_GRAPH_UNREACHABLE", "a graph in several parts has no diameter")
    return max((max(hops(graph, node).values()) for node in graph), default=0)


def spanning_tree_of(nodes: Sequence[Node], metric: Metric) -> Graph:
    """The minimum spanning tree of points that could all be linked to each other (Prim, quadratic)."""
    tree = Graph()
    nearest = {node: (metric(nodes[0], node), nodes[0]) for node in nodes[1:]}
    for node in nodes[:1]:
        tree.add_node(node)
    while nearest:
        node = min(nearest, key=lambda one: nearest[one][0])
        far, parent = nearest.pop(node)
        tree.add(parent, node, far)
        for other, (known, _) in nearest.items():
            length = metric(node, other)
            if length < known:
                nearest[other] = (length, node)
    return tree


def nearest_earlier_tree(nodes: Iterable[Node], metric: Metric) -> Graph:
    """Each node in turn is linked to the nearest of those before it: how an overlay grows when nobody plans it."""
    tree = Graph()
    earlier: list[Node] = []
    for node in nodes:
        tree.add_node(node)
        if earlier:
            parent = min(earlier, key=lambda one: metric(one, node))
            tree.add(parent, node, metric(parent, node))
        earlier.append(node)
    return tree
