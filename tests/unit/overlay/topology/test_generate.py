from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.errors import LimitError, UsageError
from tidings.overlay.topology import generate
from tidings.overlay.topology.graph import Graph, components, diameter, is_connected

RANDOM: list[Callable[[int, Random], Graph]] = [generate.random_tree, generate.waxman, generate.barabasi_albert]


def edges(graph: Graph) -> int:
    return len(list(graph.edges()))


def test_regular_shapes() -> None:
    assert [edges(make(6)) for make in (generate.line, generate.ring, generate.star, generate.full)] == [5, 6, 5, 15]
    assert [diameter(make(6)) for make in (generate.line, generate.ring, generate.star, generate.full)] == [5, 3, 2, 1]
    with pytest.raises(UsageError, match="E_GRAPH_SIZE"):
        generate.ring(2)


def test_the_papers_networks() -> None:
    assert (len(generate.square_diagonal()), edges(generate.square_diagonal())) == (4, 5)
    eight, large = generate.eight_brokers(), generate.large_network()
    assert (len(eight), diameter(eight)) == (8, 3)
    assert (len(large), diameter(large)) == (42, 11)
    assert large == generate.large_network()
    assert edges(large) > 42  # more than a tree: there is a choice of paths


@given(st.sampled_from(RANDOM), st.integers(1, 30), st.integers(0, 2**32))
def test_random_graphs_are_connected_and_repeatable(make: Callable[[int, Random], Graph], size: int, seed: int) -> None:
    graph = make(size, Random(seed))
    assert list(graph) == list(range(1, size + 1))
    assert is_connected(graph)
    assert graph == make(size, Random(seed))
    assert edges(graph) <= 2 * size


def test_barabasi_albert_has_hubs_and_waxman_prefers_the_near() -> None:
    hubs = generate.barabasi_albert(300, Random(5))
    even = generate.waxman(300, Random(5), beta=0.05)
    degree = max(len(hubs.neighbours(node)) for node in hubs)
    assert degree > 2 * max(len(even.neighbours(node)) for node in even)
    far = generate.waxman(300, Random(5), beta=10)
    assert sum(edge.latency_ms for edge in even.edges()) < sum(edge.latency_ms for edge in far.edges()) / 2


@pytest.mark.parametrize("inside", [generate.waxman, generate.barabasi_albert])
def test_transit_stub_joins_systems(inside: Callable[[int, Random], Graph]) -> None:
    graph = generate.transit_stub(Random(1), inside=inside)
    assert len(graph) == 1000
    assert is_connected(graph)
    assert {area: list(graph.areas.values()).count(area) for area in range(10)} == dict.fromkeys(range(10), 100)
    between = [edge for edge in graph.edges() if graph.areas[edge.a] != graph.areas[edge.b]]
    assert 9 <= len(between) <= 20
    for edge in between:
        graph.remove(edge.a, edge.b)
    assert len(components(graph)) == 10  # each system is connected by itself


def test_a_search_without_success_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generate, "SEARCH_TRIES_MAX", 20)
    with pytest.raises(LimitError, match="E_GRAPH_SEARCH"):
        generate.with_diameter(4, 9, Random(0), extra_links=0)


def test_the_same_shape_with_other_links() -> None:
    shape = generate.transit_stub(Random(1), systems=2, nodes_each=3)
    limited = generate.with_links(shape, bandwidth_bytes_s=1e6)
    assert [(e.a, e.b, e.latency_ms) for e in limited.edges()] == [(e.a, e.b, e.latency_ms) for e in shape.edges()]
    assert {edge.bandwidth_bytes_s for edge in limited.edges()} == {1e6}
    assert {edge.latency_ms for edge in generate.with_links(limited, latency_ms=5).edges()} == {5.0}
    assert limited.areas == shape.areas
