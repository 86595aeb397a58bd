"""Topologies made by rule or by chance. Nodes are numbered from 1; chance comes from the `rng` passed in.

The random ones follow BRITE: Waxman links nodes with a probability that falls with their distance
(alpha · exp(−d / (beta · L))), Barabási–Albert links a new node to old ones in proportion to their degree, and
transit-stub joins autonomous systems, each a graph of its own, by a graph of systems.

>>> from random import Random
>>> from tidings.overlay.topology.graph import diameter
>>> diameter(ring(8)), diameter(square_diagonal()), diameter(eight_brokers()), diameter(large_network())
(4, 2, 3, 11)
"""

import math
from collections.abc import Callable
from random import Random

from tidings.errors import LimitError, UsageError
from tidings.overlay.topology.graph import Graph, Node, diameter, distances

SEARCH_TRIES_MAX = 10_000


def _nodes(count: int, least: int = 1) -> Graph:
    if count < least:
        raise UsageError("E_GRAPH_SIZE", f"this topology needs at least {least} nodes, not {count}")
    graph = Graph()
    for node in range(1, count + 1):
        graph.add_node(node)
    return graph


def line(count: int, latency_ms: float = 1.0, bandwidth_bytes_s: float | None = None) -> Graph:
    graph = _nodes(count)
    for node in range(2, count + 1):
        graph.add(node - 1, node, latency_ms, bandwidth_bytes_s)
    return graph


def ring(count: int, latency_ms: float = 1.0, bandwidth_bytes_s: float | None = None) -> Graph:
    _nodes(count, least=3)
    graph = line(count, latency_ms, bandwidth_bytes_s)
    graph.add(count, 1, latency_ms, bandwidth_bytes_s)
    return graph


def star(count: int, latency_ms: float = 1.0, bandwidth_bytes_s: float | None = None) -> Graph:
    """Node 1 in the middle."""
    graph = _nodes(count)
    for node in range(2, count + 1):
        graph.add(1, node, latency_ms, bandwidth_bytes_s)
    return graph


def full(count: int, latency_ms: float = 1.0, bandwidth_bytes_s: float | None = None) -> Graph:
    graph = _nodes(count)
    for node in range(2, count + 1):
        for other in range(1, node):
            graph.add(other, node, latency_ms, bandwidth_bytes_s)
    return graph


def square_diagonal(latency_ms: float = 1.0, bandwidth_bytes_s: float | None = None) -> Graph:
    """The four brokers of the B-DRP paper: a square and one of its diagonals."""
    graph = ring(4, latency_ms, bandwidth_bytes_s)
    graph.add(1, 3, latency_ms, bandwidth_bytes_s)
    return graph


def random_tree(count: int, rng: Random, latency_ms: float = 1.0) -> Graph:
    graph = _nodes(count)
    for node in range(2, count + 1):
        graph.add(rng.randrange(1, node), node, latency_ms)
    return graph


def _positions(count: int, rng: Random) -> list[tuple[float, float]]:
    return [(rng.random(), rng.random()) for _ in range(count + 1)]  # number 0 stays unused


def waxman(
    count: int, rng: Random, links_each: int = 2, alpha: float = 0.15, beta: float = 0.2, latency_ms_max: float = 20.0
) -> Graph:
    """Grows node by node; each new one gets `links_each` links, nearer nodes being likelier. Always connected."""
    graph = _nodes(count)
    at = _positions(count, rng)
    scale = beta * math.sqrt(2)

    def likelihood(a: int, b: int) -> float:
        return alpha * math.exp(-math.dist(at[a], at[b]) / scale)

    for node in range(2, count + 1):
        for other in _choose(range(1, node), lambda one, node=node: likelihood(one, node), links_each, rng):  # type: ignore[misc]
            graph.add(other, node, _length_ms(at[other], at[node], latency_ms_max))
    return graph


def barabasi_albert(count: int, rng: Random, links_each: int = 2, latency_ms_max: float = 20.0) -> Graph:
    """Grows node by node; each new one gets `links_each` links, well-linked nodes being likelier. Always connected."""
    graph = _nodes(count)
    at = _positions(count, rng)
    for node in range(2, count + 1):
        for other in _choose(range(1, node), lambda one: len(graph.neighbours(one)) or 1, links_each, rng):
            graph.add(other, node, _length_ms(at[other], at[node], latency_ms_max))
    return graph


def _length_ms(p: tuple[float, float], q: tuple[float, float], latency_ms_max: float) -> float:
    return max(0.01, round(math.dist(p, q) / math.sqrt(2) * latency_ms_max, 3))


def _choose(nodes: range, weight: Callable[[int], float], count: int, rng: Random) -> list[int]:
    """Up to `count` different nodes, each drawn in proportion to its weight."""
    left = {node: weight(node) for node in nodes}
    chosen: list[int] = []
    while left and len(chosen) < count:
        node = rng.choices(list(left), list(left.values()))[0]
        chosen.append(node)
        del left[node]
    return chosen


def transit_stub(
    rng: Random,
    systems: int = 10,
    nodes_each: int = 100,
    inside: Callable[[int, Random], Graph] = waxman,
    between_latency_ms: tuple[float, float] = (10.0, 80.0),
) -> Graph:
    """Autonomous systems, each a graph made by `inside`, joined by a Waxman graph of systems through random nodes.

    `areas` tells the system of each node, from 0. System s has the nodes s · nodes_each + 1 and following.
    """
    graph = _nodes(systems * nodes_each)
    for system in range(systems):
        first = system * nodes_each
        for edge in inside(nodes_each, rng).edges():
            a, b = (first + int(end) for end in (edge.a, edge.b))
            graph.add(a, b, edge.latency_ms, edge.bandwidth_bytes_s)
        graph.areas.update((first + node, system) for node in range(1, nodes_each + 1))
    for edge in waxman(systems, rng).edges():
        a, b = ((int(end) - 1) * nodes_each + rng.randint(1, nodes_each) for end in (edge.a, edge.b))
        graph.add(a, b, round(rng.uniform(*between_latency_ms), 3))
    return graph


def with_diameter(count: int, hops: int, rng: Random, extra_links: int) -> Graph:
    """A sparse Waxman graph of exactly this diameter, found by trying: a tree with some links more."""
    for _ in range(SEARCH_TRIES_MAX):
        graph = waxman(count, rng, links_each=1, beta=0.1)
        near = {node: distances(graph, node) for node in graph}
        for _ in range(extra_links):
            _add_short_link(graph, near, rng)
        if diameter(graph) == hops:
            return graph
    raise LimitError(
        "E_GRAPH_SEARCH", f"no graph of {count} nodes and diameter {hops} found in {SEARCH_TRIES_MAX} tries"
    )


def _add_short_link(graph: Graph, near: dict[Node, dict[Node, float]], rng: Random) -> None:
    """Link a random node to the nearest that is not its neighbour: redundancy without shortening much."""
    node = rng.choice(list(graph))
    others = [other for other in graph if other != node and not graph.has(node, other)]
    if others:
        other = min(others, key=near[node].__getitem__)
        graph.add(node, other, round(near[node][other], 3))


def eight_brokers() -> Graph:
    """Eight brokers of diameter 3, as in the B-DRP paper, which had them from BRITE but does not print the links."""
    return with_diameter(8, 3, Random(8), extra_links=4)


def large_network() -> Graph:
    """42 brokers of diameter 11, likewise."""
    return with_diameter(42, 11, Random(42), extra_links=12)


def with_links(graph: Graph, latency_ms: float | None = None, bandwidth_bytes_s: float | None = None) -> Graph:
    """The same shape with links all alike in what is given; None leaves each as it is."""
    found = Graph()
    for node in graph:
        found.add_node(node)
    for edge in graph.edges():
        latency = edge.latency_ms if latency_ms is None else latency_ms
        bandwidth = edge.bandwidth_bytes_s if bandwidth_bytes_s is None else bandwidth_bytes_s
        found.add(edge.a, edge.b, latency, bandwidth)
    found.areas = dict(graph.areas)
    return found
