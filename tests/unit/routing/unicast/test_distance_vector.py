import pytest

from tidings.errors import UsageError
from tidings.routing.control.messages import FloodAck, VectorRequest, VectorRoute, VectorUpdate, Version
from tidings.routing.effects import Effect, Install, Report, Route, Send
from tidings.routing.unicast.distance_vector import DistanceVector
from tidings.routing.unicast.protocol import INFINITY

V1, V2 = Version(1, 1), Version(1, 2)


def sent(effects: list[Effect], to: int) -> list[object]:
    return [effect.message for effect in effects if isinstance(effect, Send) and effect.neighbour == to]


def update(*routes: tuple[int, Version, int], whole: bool = False) -> VectorUpdate:
    return VectorUpdate(tuple(VectorRoute(*route) for route in routes), whole)


def router_1() -> DistanceVector:
    """Router 1 between 2 and 3; 9 is 5 away from 2 and 8 away from 3."""
    router = DistanceVector(1, incarnation=1)
    router.start(0.0)
    router.link_up(0.0, 2, cost=1)
    router.link_up(0.0, 3, cost=1)
    router.receive(1.0, 2, update((2, V1, 0), (9, V1, 5), whole=True))
    router.receive(1.0, 3, update((3, V1, 0), (9, V1, 8), whole=True))
    router.tick(25.0)
    return router


def test_a_new_neighbour_gets_the_whole_table() -> None:
    router = router_1()
    assert router.table.routes == {2: Route(2, 1), 3: Route(3, 1), 9: Route(2, 6)}
    (told,) = sent(router.link_up(30.0, 4, cost=2), to=4)
    assert told == update((1, V1, 0), (2, V1, 1), (9, V1, 6), (3, V1, 1), whole=True)


def test_poisoned_reverse_and_triggered_updates() -> None:
    router = router_1()
    router.receive(30.0, 2, update((9, V1, 4)))
    out = router.tick(50.0)
    assert sent(out, to=3) == [update((9, V1, 5))]
    assert sent(out, to=2) == [update((9, V1, INFINITY))]


def test_a_longer_route_of_the_same_version_may_lead_back_and_is_not_taken() -> None:
    router = router_1()
    out = router.link_down(30.0, 2)
    assert [effect.table.routes for effect in out if isinstance(effect, Install)] == [{3: Route(3, 1)}]
    out = router.tick(50.0)
    assert sent(out, to=3) == [
        update((2, V1, INFINITY), (9, V1, INFINITY)),
        VectorRequest(9, V2, 255),
    ]
    assert sent(router.tick(549.0), to=3) == []
    assert sent(router.tick(600.0), to=3) == [VectorRequest(9, V2, 255)]  # again until served
    router.receive(700.0, 3, update((9, V2, 8)))
    assert (router.next_hop(9), router.distance(9)) == (3, 9)
    assert sent(router.tick(1300.0), to=3) == [update((9, V2, INFINITY))]


def test_a_shorter_route_is_taken_whatever_its_neighbour() -> None:
    router = router_1()
    router.receive(30.0, 3, update((9, V1, 2)))
    assert (router.next_hop(9), router.distance(9)) == (3, 3)
    router.receive(31.0, 2, update((9, V1, 2)))
    assert router.next_hop(9) == 2  # of equal ones the smaller


def test_requests_are_served_or_passed_on_once() -> None:
    router = router_1()
    assert sent(router.receive(30.0, 3, VectorRequest(9, V1, 10)), to=3) == [update((9, V1, 6))]
    assert sent(router.receive(30.0, 3, VectorRequest(9, V2, 10)), to=2) == [VectorRequest(9, V2, 9)]
    assert sent(router.receive(31.0, 3, VectorRequest(9, V2, 10)), to=2) == []
    assert sent(router.receive(32.0, 3, VectorRequest(9, Version(1, 3), 1)), to=2) == []  # too far already
    router.receive(33.0, 2, VectorRequest(1, Version(1, 5), 10))
    told = sent(router.tick(60.0), to=2)
    assert update((1, Version(1, 5), 0)) in told


def test_hold_down_forgets_in_the_end() -> None:
    router = router_1()
    router.link_down(30.0, 2)
    router.receive(40.0, 3, update((9, V1, INFINITY)))
    router.tick(60_000.0)
    router.receive(60_010.0, 3, update((9, V1, 8)))
    assert router.next_hop(9) is None  # still held down: it could be our own news coming back
    router.receive(60_020.0, 3, update((9, V1, INFINITY)))
    router.tick(60_040.0)
    router.receive(60_050.0, 3, update((9, V1, 8)))
    assert router.next_hop(9) == 3


def test_a_whole_table_takes_back_what_it_does_not_name() -> None:
    router = router_1()
    router.receive(30.0, 2, update((2, V1, 0), whole=True))
    assert router.next_hop(9) is None
    assert router.reachable() == [2, 3]


def test_costs_change_and_infinity_is_the_end() -> None:
    router = router_1()
    router.link_up(30.0, 2, cost=10)
    assert router.distance(9) in (9, 15)  # by 3 if allowed, otherwise still by 2
    router.receive(40.0, 3, update((77, V1, INFINITY - 1)))
    assert router.next_hop(77) is None


def test_someone_else_with_our_number_and_other_nonsense() -> None:
    router = router_1()
    out = router.receive(30.0, 2, update((1, Version(9, 1), 4)))
    assert [effect.code for effect in out if isinstance(effect, Report)] == ["E_UNICAST_IDENTITY"]
    with pytest.raises(UsageError, match="E_UNICAST_MESSAGE"):
        router.receive(30.0, 2, FloodAck(1, 1, V1))
    with pytest.raises(UsageError, match="E_UNICAST_COST"):
        router.link_up(30.0, 5, cost=0)
    assert router.receive(30.0, 8, update((9, V2, 0))) == []  # no neighbour


def test_a_later_incarnation_of_ourselves_is_overruled() -> None:
    router = router_1()
    router.receive(30.0, 2, update((1, Version(9, 1), 4)))
    assert router.incarnation == 10
    told = [effect.message for effect in router.tick(50.0) if isinstance(effect, Send)]
    assert VectorRoute(1, Version(10, 1), 0) in [
        route for one in told if isinstance(one, VectorUpdate) for route in one.routes
    ]
    router.receive(60.0, 2, VectorRequest(1, Version(12, 3), 9))  # so soon after, it waits
    assert router.incarnation == 10
    router.tick(30.0 + router.options.overrule_ms)
    assert router.incarnation == 13
