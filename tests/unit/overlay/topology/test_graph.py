from itertools import combinations, pairwise, permutations
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.errors import UsageError
from tidings.overlay.topology.generate import full, line, random_tree, waxman
from tidings.overlay.topology.graph import (
    Graph,
    components,
    diameter,
    distances,
    hops,
    is_connected,
    nearest_earlier_tree,
    shortest_path,
    shortest_tree,
    spanning_tree_of,
)

seeds = st.integers(0, 2**32)


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    graph = Graph()
    size = draw(st.integers(1, 6))
    for node in range(size):
        graph.add_node(node)
    pairs = [(a, b) for a in range(size) for b in range(a)]
    for a, b in draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []:
        graph.add(a, b, latency_ms=draw(st.integers(1, 9)))
    return graph


def total(graph: Graph) -> float:
    return sum(edge.latency_ms for edge in graph.edges())


@given(graphs())
def test_distances_are_those_of_the_best_of_all_paths(graph: Graph) -> None:
    nodes = list(graph)
    found = distances(graph, 0)
    for target in nodes:
        lengths = []
        for middle in range(len(nodes)):
            for inner in permutations([n for n in nodes if n not in (0, target)], middle):
                path = [0, *inner, target] if target else [0]
                if all(graph.has(a, b) for a, b in pairwise(path)):
                    lengths.append(sum(graph.neighbours(a)[b].latency_ms for a, b in pairwise(path)))
        assert found.get(target) == min(lengths, default=None)


@given(graphs(), st.data())
def test_a_shortest_path_has_the_length_of_the_distance(graph: Graph, data: st.DataObject) -> None:
    target = data.draw(st.sampled_from(list(graph)))
    far = distances(graph, 0)
    if target not in far:
        with pytest.raises(UsageError, match="E_GRAPH_UNREACHABLE"):
            shortest_path(graph, 0, target)
        return
    path = shortest_path(graph, 0, target)
    assert (path[0], path[-1]) == (0, target)
    assert sum(graph.neighbours(a)[b].latency_ms for a, b in pairwise(path)) == far[target]
    assert set(shortest_tree(graph, 0)) == set(far) - {0}


@given(graphs())
def test_components_divide_the_nodes_by_reachability(graph: Graph) -> None:
    parts = components(graph)
    assert sorted(node for part in parts for node in part) == sorted(graph)
    for part in parts:
        assert all(set(hops(graph, node)) == part for node in part)
    assert is_connected(graph) == (len(parts) == 1)


@given(seeds, st.integers(1, 12))
def test_a_spanning_tree_has_the_shortest_edges(seed: int, size: int) -> None:
    rng = Random(seed)
    at = [(rng.random(), rng.random()) for _ in range(size)]

    def metric(a: int | str, b: int | str) -> float:
        return abs(at[int(a)][0] - at[int(b)][0]) + abs(at[int(a)][1] - at[int(b)][1])

    prim = spanning_tree_of(range(size), metric)
    assert is_connected(prim)
    assert len(list(prim.edges())) == size - 1
    for a, b in combinations(range(size), 2):  # no edge outside is shorter than one on the path it would replace
        path = shortest_path(prim, a, b)
        assert all(prim.neighbours(c)[d].latency_ms <= metric(a, b) for c, d in pairwise(path))
    earlier = nearest_earlier_tree(range(size), metric)
    assert is_connected(earlier)
    assert len(list(earlier.edges())) == size - 1
    assert total(earlier) >= total(prim) - 1e-9


def test_nearest_earlier_links_each_to_the_nearest_before_it() -> None:
    tree = nearest_earlier_tree([0, 10, 4, 9], lambda a, b: abs(int(a) - int(b)))
    assert [(edge.a, edge.b) for edge in tree.edges()] == [(0, 10), (0, 4), (10, 9)]


def test_diameters() -> None:
    assert [diameter(graph) for graph in (line(1), line(5), full(5))] == [0, 4, 1]
    assert diameter(random_tree(9, Random(3))) >= 2
    split = Graph()
    split.add_node(1)
    split.add_node(2)
    with pytest.raises(UsageError, match="E_GRAPH_UNREACHABLE"):
        diameter(split)


@pytest.mark.parametrize(
    ("edge", "code"),
    [
        ((1, 1, 1.0, None), "E_GRAPH_LOOP"),
        ((2, 1, 1.0, None), "E_GRAPH_DUPLICATE"),
        ((1, 3, -1.0, None), "E_GRAPH_LATENCY"),
        ((1, 3, float("nan"), None), "E_GRAPH_LATENCY"),
        ((1, 3, 1.0, 0.0), "E_GRAPH_BANDWIDTH"),
    ],
)
def test_edges_that_cannot_be(edge: tuple[int, int, float, float | None], code: str) -> None:
    graph = line(2)
    with pytest.raises(UsageError, match=code):
        graph.add(*edge)
    assert len(list(graph.edges())) == 1


def test_removing_and_comparing() -> None:
    graph = waxman(6, Random(1))
    same = waxman(6, Random(1))
    assert graph == same
    edge = next(graph.edges())
    graph.remove(edge.b, edge.a)
    assert graph != same
    assert not graph.has(edge.a, edge.b)
    with pytest.raises(UsageError, match="E_GRAPH_UNKNOWN"):
        graph.remove(edge.a, edge.b)
    with pytest.raises(UsageError, match="E_GRAPH_UNKNOWN"):
        graph.neighbours("nowhere")
