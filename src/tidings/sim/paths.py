"""Computes the hosts that a packet crosses between two hosts. Physical routes are static: a fault on the way cuts them.

`flat`: least latency over the whole graph. `two_level`: as between autonomous systems, first the path of systems with
the least latency between them, then within each system the shortest way to the next border. `direct`: only along a link
of their own; for overlays simulated without a network beneath.
"""

from collections.abc import Callable
from functools import cache
from itertools import pairwise
from typing import TypeAlias

from tidings.errors import UsageError
from tidings.overlay.topology.graph import Edge, Graph, Node, distances, shortest_path, shortest_tree

Paths: TypeAlias = Callable[[Node, Node], tuple[Node, ...]]


def direct(graph: Graph) -> Paths:
    def path(source: Node, target: Node) -> tuple[Node, ...]:
        if source != target and not graph.has(source, target):
            raise UsageError("E_GRAPH_UNREACHABLE", f"no link between {source} and {target}")
        return (source, target)

    return path


def flat(graph: Graph) -> Paths:
    tree = cache(lambda source: shortest_tree(graph, source))
    return cache(lambda source, target: _walk(tree(source), source, target))


def _walk(tree: dict[Node, Node], source: Node, target: Node) -> tuple[Node, ...]:
    path = [target]
    while path[-1] != source:
        if path[-1] not in tree:
            raise UsageError("E_GRAPH_UNREACHABLE", f"no path from {source} to {target}")
        path.append(tree[path[-1]])
    return tuple(path[::-1])


def _levels(graph: Graph) -> tuple[dict[int, Graph], Graph, dict[tuple[Node, Node], Edge]]:
    """Each system's own graph, the graph of systems, and the edge between two of them."""
    areas = graph.areas
    inside: dict[int, Graph] = {area: Graph() for area in areas.values()}
    systems = Graph()
    borders: dict[tuple[Node, Node], Edge] = {}
    for node in graph:
        inside[areas[node]].add_node(node)
        systems.add_node(areas[node])
    for edge in sorted(graph.edges(), key=lambda edge: edge.latency_ms):
        a, b = areas[edge.a], areas[edge.b]
        if a == b:
            inside[a].add(edge.a, edge.b, edge.latency_ms)
        elif not systems.has(a, b):  # of several borders the shortest
            systems.add(a, b, edge.latency_ms)
            borders[a, b] = borders[b, a] = edge
    return inside, systems, borders


def two_level(graph: Graph) -> Paths:
    areas = graph.areas
    inside, systems, borders = _levels(graph)
    tree = cache(lambda source: shortest_tree(inside[areas[source]], source))
    over = cache(lambda a, b: shortest_path(systems, a, b))

    def path(source: Node, target: Node) -> tuple[Node, ...]:
        found: list[Node] = [source]
        way = over(areas[source], areas[target])
        for here, there in pairwise(way):
            edge = borders[here, there]
            out, entry = (edge.a, edge.b) if areas[edge.a] == here else (edge.b, edge.a)
            found += [*_walk(tree(found[-1]), found[-1], out)[1:], entry]
        return (*found, *_walk(tree(found[-1]), found[-1], target)[1:])

    return cache(path)


def two_level_latency(graph: Graph) -> Callable[[Node, Node], float]:
    """The sum of latencies along the path of `two_level`, without walking it: for many pairs."""
    areas = graph.areas
    inside, systems, borders = _levels(graph)
    within = cache(lambda node: distances(inside[areas[node]], node))

    @cache
    def between(here: int, there: int) -> tuple[Node, float, Node]:
        """The border where one leaves a system for another, the way from there, and where one enters."""
        way = shortest_path(systems, here, there)
        first = entry = None
        length = 0.0
        for one, other in pairwise(way):
            edge = borders[one, other]
            out, into = (edge.a, edge.b) if areas[edge.a] == one else (edge.b, edge.a)
            length += edge.latency_ms + (within(out)[entry] if entry is not None else 0.0)
            first, entry = (out if first is None else first), into
        assert first is not None
        assert entry is not None
        return first, length, entry

    def latency_ms(source: Node, target: Node) -> float:
        here, there = areas[source], areas[target]
        if here == there:
            return within(source)[target]
        out, length, entry = between(here, there)
        return within(out)[source] + length + within(entry)[target]

    return latency_ms
