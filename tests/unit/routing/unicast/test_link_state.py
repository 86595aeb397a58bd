from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.errors import CodecError, UsageError
from tidings.overlay.topology.generate import barabasi_albert
from tidings.overlay.topology.graph import distances
from tidings.routing.control.messages import FloodItem, Topic, Version
from tidings.routing.effects import Deliver, Effect, Install, Report, Route, SetTimer, UnicastTable
from tidings.routing.unicast.link_state import LinkStateUnicast, decode_links, encode_links, shortest_routes, takers
from tidings.routing.unicast.protocol import COST_MAX


def says(origin: int, links: dict[int, int], sequence: int = 1, payload: bytes | None = None) -> FloodItem:
    data = encode_links(links) if payload is None else payload
    return FloodItem(Topic.LINKS, origin, Version(1, sequence), 60_000, True, data)


def installed(effects: list[Effect]) -> list[UnicastTable]:
    return [effect.table for effect in effects if isinstance(effect, Install)]


@given(st.integers(1, 12), st.integers(0, 2**32))
def test_routes_are_shortest_paths(size: int, seed: int) -> None:
    rng = Random(seed)
    graph = barabasi_albert(size, rng)
    cost = {frozenset((edge.a, edge.b)): rng.randint(1, 5) for edge in graph.edges()}
    links = {int(a): {int(b): cost[frozenset((a, b))] for b in graph.neighbours(a)} for a in graph}
    far = {a: distances(graph, a, lambda edge: cost[frozenset((edge.a, edge.b))]) for a in graph}
    routes = shortest_routes(1, links)
    assert set(routes) == set(links) - {1}
    for node, route in routes.items():
        assert route.distance == far[1][node]
        hops = [hop for hop, step in links[1].items() if step + far[hop][node] == route.distance]
        assert route.next_hop == min(hops)  # of equal paths the one by the smallest neighbour


@given(st.integers(2, 12), st.integers(0, 2**32))
def test_the_broadcasts_that_neighbours_take_are_a_tree_for_each_origin(size: int, seed: int) -> None:
    rng = Random(seed)
    graph = barabasi_albert(size, rng)
    links = {int(a): {int(b): rng.randint(1, 5) for b in graph.neighbours(a)} for a in graph}
    ways = [(a, b, origin) for a in links for b, some in takers(a, links).items() for origin in some]
    for origin in links:
        assert sorted(b for _, b, one in ways if one == origin) == sorted(links.keys() - {origin})
        reached, before = {origin}, set[int]()
        while reached != before:
            before = set(reached)
            reached |= {b for a, b, one in ways if one == origin and a in reached}
        assert reached == links.keys()


def test_a_link_counts_only_if_both_ends_say_so() -> None:
    assert shortest_routes(1, {1: {2: 1}, 2: {}}) == {}
    assert shortest_routes(1, {1: {2: 1}, 2: {1: 1, 3: 1}, 3: {}}) == {2: Route(2, 1)}
    assert shortest_routes(1, {1: {2: 1}}) == {}


def test_learning_and_losing_a_neighbour() -> None:
    router = LinkStateUnicast(1, incarnation=1)
    router.start(0.0)
    router.link_up(0.0, 2, cost=3)
    router.tick(0.0)
    told = router.receive(1.0, 2, says(2, {1: 3, 5: 4}))
    told += router.receive(1.0, 2, says(5, {2: 4}))
    assert installed(told) == []  # computed a moment later, once for both
    assert any(isinstance(effect, SetTimer) for effect in told)
    (table,) = installed(router.tick(11.0))
    assert table.routes == {2: Route(2, 3), 5: Route(2, 7)}
    assert (router.next_hop(5), router.distance(5)) == (2, 7)
    assert (router.distance(1), router.next_hop(1), router.distance(9)) == (0, None, None)
    assert router.reachable() == [2, 5]
    router.link_up(20.0, 2, cost=1)
    assert installed(router.tick(20.0))[0].routes[5] == Route(2, 5)
    (table,) = installed(router.link_down(30.0, 2))  # at once
    assert table.routes == {}
    assert router.reachable() == []


def test_links_that_make_no_sense_are_reported_and_ignored() -> None:
    router = LinkStateUnicast(1, incarnation=1)
    router.link_up(0.0, 2, cost=1)
    out = router.receive(1.0, 2, says(2, {}, payload=b"\x05"))
    assert [effect.code for effect in out if isinstance(effect, Report)] == ["E_LINKS_PAYLOAD"]
    assert installed(router.tick(20.0)) == []
    good = router.receive(21.0, 2, says(2, {1: 1}, sequence=2))
    assert not any(isinstance(effect, Report) for effect in good)
    assert installed(router.tick(40.0))[0].routes == {2: Route(2, 1)}


def test_other_topics_pass_through() -> None:
    router = LinkStateUnicast(1, incarnation=1)
    router.link_up(0.0, 2, cost=1)
    item = FloodItem(Topic.PREDICATES, 7, Version(1, 1), 60_000, True, b"interests")
    assert Deliver(Topic.PREDICATES, 7, True, b"interests") in router.receive(1.0, 2, item)


@given(st.dictionaries(st.integers(0, 2**32 - 1), st.integers(1, COST_MAX), max_size=20))
def test_links_as_bytes(links: dict[int, int]) -> None:
    assert decode_links(encode_links(links)) == links


@pytest.mark.parametrize("data", [b"", b"\x01", b"\x01\x05\x00", b"\x02\x05\x01\x05\x01", b"\x00\x00"])
def test_bytes_that_are_no_links(data: bytes) -> None:
    with pytest.raises(CodecError, match="E_CONTROL_"):
        decode_links(data)


@pytest.mark.parametrize(("neighbour", "cost"), [(2, 0), (2, COST_MAX + 1), (1, 1)])
def test_links_that_cannot_be(neighbour: int, cost: int) -> None:
    with pytest.raises(UsageError):
        LinkStateUnicast(1, incarnation=1).link_up(0.0, neighbour, cost)


def test_what_a_vanished_router_said_is_forgotten() -> None:
    router = LinkStateUnicast(1, incarnation=1)
    router.link_up(0.0, 2, cost=1)
    router.receive(1.0, 2, says(2, {1: 1, 5: 1}))
    router.receive(1.0, 2, says(5, {2: 1}))
    router.tick(50.0)
    assert router.reachable() == [2, 5]
    router.receive(30_000.0, 2, says(2, {1: 1, 5: 1}, sequence=2))  # 2 renews, 5 does not
    router.tick(60_001.0)
    router.tick(60_020.0)
    assert router.reachable() == [2]
    assert set(router.flood.state(Topic.LINKS)) == {1, 2}
