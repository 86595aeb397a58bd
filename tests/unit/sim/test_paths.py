from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidings.errors import UsageError
from tidings.overlay.topology.generate import transit_stub, waxman
from tidings.overlay.topology.graph import Graph, distances
from tidings.sim.paths import direct, flat, two_level, two_level_latency


@given(st.integers(2, 12), st.integers(0, 2**32))
def test_flat_paths_have_the_least_latency(size: int, seed: int) -> None:
    graph = waxman(size, Random(seed))
    path = flat(graph)(1, size)
    assert (path[0], path[-1]) == (1, size)
    length = sum(graph.neighbours(a)[b].latency_ms for a, b in pairwise(path))
    assert length == pytest.approx(distances(graph, 1)[size])
    assert flat(graph)(1, 1) == (1,)


@settings(max_examples=20)
@given(st.integers(0, 2**32), st.data())
def test_two_level_paths_enter_each_system_once(seed: int, data: st.DataObject) -> None:
    graph = transit_stub(Random(seed), systems=4, nodes_each=5)
    paths = two_level(graph)
    source, target = data.draw(st.integers(1, 20)), data.draw(st.integers(1, 20))
    path = paths(source, target)
    assert (path[0], path[-1]) == (source, target)
    assert all(graph.has(a, b) for a, b in pairwise(path))
    systems = [graph.areas[node] for node in path]
    changes = [systems[0], *(b for a, b in pairwise(systems) if a != b)]
    assert len(set(changes)) == len(changes)
    if len(changes) == 1:
        inside = Graph()
        for edge in graph.edges():
            if graph.areas[edge.a] == graph.areas[edge.b] == systems[0]:
                inside.add(edge.a, edge.b, edge.latency_ms)
        length = sum(graph.neighbours(a)[b].latency_ms for a, b in pairwise(path))
        assert source == target or length == pytest.approx(distances(inside, source)[target])


def test_where_no_path_is() -> None:
    graph = waxman(3, Random(1), links_each=1)
    graph.add_node("island")
    with pytest.raises(UsageError, match="E_GRAPH_UNREACHABLE"):
        flat(graph)(1, "island")
    with pytest.raises(UsageError, match="E_GRAPH_UNREACHABLE"):
        direct(graph)(1, "island")
    assert direct(graph)(1, 2) == (1, 2)


def test_two_level_latency_is_the_length_of_the_two_level_path() -> None:
    graph = transit_stub(Random(3), systems=5, nodes_each=8)
    path, latency_ms = two_level(graph), two_level_latency(graph)
    for source in list(graph)[::3]:
        for target in list(graph)[::5]:
            way = path(source, target)
            length = sum(graph.neighbours(a)[b].latency_ms for a, b in pairwise(way))
            assert latency_ms(source, target) == pytest.approx(length)
