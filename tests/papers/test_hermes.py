"""Pietzuch and Bacon: peer-to-peer overlay broker networks in an event-based middleware (Hermes, Pan), by section."""

from collections import Counter
from itertools import count, pairwise
from random import Random

import pytest

from tidings.errors import TidingsError
from tidings.kernel.codec import decode_message, encode_message
from tidings.model.constraint import Constraint, Op
from tidings.model.destination import Destination
from tidings.model.event_type import AttributeType, EventType, TypeTree
from tidings.model.message import Message
from tidings.model.predicate import Predicate
from tidings.overlay.pan import PanOptions
from tidings.overlay.topology.space import plane
from tidings.routing.hermes import HermesOptions
from tidings.routing.hermes.messages import HermesHandOver, HermesPublication, HermesSubscriptionId, InterestKind
from tidings.sim.hermes import NOTICE_MS, HermesNetwork
from tidings.sim.pan import PanNetwork

SEEDS = range(1, 5)
TICK = EventType("tick", None, {"price": AttributeType.INT})
BOND = EventType("bond", "tick", {"years": AttributeType.INT})
LOAN = EventType("loan", "bond")
OPTIONS = HermesOptions(refresh_ms=4_000, lifetime_ms=14_000, settle_ms=9_000)
LASTING = HermesOptions(refresh_ms=600_000, lifetime_ms=2_100_000)  # nothing is said again during a test
Edge = tuple[int, int]


def over(price: int) -> Predicate:
    return Predicate.of(Constraint("price", Op.GT, price))


def overlay(brokers: int, seed: int, *, timers: bool = False) -> PanNetwork:
    rng = Random(seed)
    pan = PanNetwork(plane(brokers + 10, rng).latency_ms, rng, options=PanOptions(leaves=4), timers=timers)
    if not timers:
        pan.grow(list(range(brokers)))
        return pan
    for router in range(brokers):
        pan.add(router, rng.randrange(router) if router else None)
        pan.calendar.run(until=pan.calendar.now + 500)
    return pan


class Town:
    """Hermes brokers on Pan. Without timers the network rests once nothing is on its way."""

    def __init__(self, brokers: int, seed: int, *types: EventType, timers: bool = False) -> None:
        self.network = HermesNetwork(overlay(brokers, seed, timers=timers), OPTIONS if timers else LASTING)
        self.pan, self.calendar, self.timers = self.network.pan, self.network.calendar, timers
        self.given: Counter[tuple[int, int]] = Counter()  # by event and subscription
        self.sent: list[tuple[Edge, HermesPublication]] = []
        self._numbers = count(1)
        self.network.on_hand = self._hand
        self.network.on_publication = lambda source, to, event: self.sent.append(((source, to), event))
        for one in types:
            self.add_type(0, one)

    def _hand(self, router: int, hand: HermesHandOver) -> None:
        assert all(one.router == router for one in hand.subscriptions)
        event = int(decode_message(hand.message).body)
        self.given.update((event, one.number) for one in hand.subscriptions)

    def rest(self, ms: float = 1_500) -> None:
        self.calendar.run(until=self.calendar.now + ms) if self.timers else self.calendar.run()

    def _asked(self, token: int) -> TidingsError | None:
        self.rest()
        return self.network.done.pop(token).error

    def add_type(self, router: int, event_type: EventType) -> TidingsError | None:
        token = next(self._numbers)
        self.network.do(router, self.network.brokers[router].add_type(self.calendar.now, token, event_type))
        return self._asked(token)

    def advertise(self, router: int, name: str = "tick") -> None:
        token = next(self._numbers)
        self.network.do(router, self.network.brokers[router].advertise(self.calendar.now, token, name))
        assert self._asked(token) is None

    def subscribe(self, router: int, name: str = "tick", filter: Predicate | None = None) -> int:
        number = next(self._numbers)
        id = HermesSubscriptionId(router, number)
        self.network.do(router, self.network.brokers[router].subscribe(self.calendar.now, number, id, name, filter))
        assert self._asked(number) is None
        return number

    def publish(self, router: int, price: int, name: str = "tick", *, persistent: bool = False) -> int:
        """Returns the event's number; afterwards `sent` has its copies between brokers."""
        number = next(self._numbers)
        body = str(number).encode()
        event = encode_message(Message(Destination.parse(name), {"price": price}, body, persistent=persistent))
        self.sent.clear()
        broker = self.network.brokers[router]
        self.network.do(router, broker.publish(self.calendar.now, name, event, body if persistent else b""))
        self.rest()
        return number

    def subscriptions_given(self, event: int) -> dict[int, int]:
        return {number: times for (one, number), times in self.given.items() if one == event}

    def way_up(self, router: int, name: str = "tick") -> list[int]:
        return self.pan.path(router, self.pan.space.hash(name))

    def holding(self, kind: InterestKind, name: str = "tick") -> set[int]:
        """The brokers that have an entry of this kind in their From tables."""
        brokers = self.network.brokers.items()
        return {router for router, one in brokers if name in one.trees.trees and one.trees.trees[name].flows[kind]}

    def others(self, number: int, seed: int, *, but: set[int] | None = None) -> list[int]:
        roots = {self.network.rendezvous(name) for name in ("tick", "bond", "loan")}
        return Random(seed).sample(sorted(set(self.network.brokers) - roots - (but or set())), number)


def edges(*paths: list[int]) -> set[Edge]:
    return {edge for path in paths for edge in pairwise(path)}


# --- 2.4: the overlay ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_2_4_route_ends_at_the_numerically_closest_node_by_ever_longer_prefixes(seed: int) -> None:
    """A message goes to a node that shares a longer prefix with the destination, or to a leaf that is numerically
    closer; it is delivered at the node whose identifier is closest to the destination's."""
    pan, rng = overlay(40, seed), Random(seed)
    space = pan.space
    for _ in range(100):
        key = rng.randrange(space.size)
        ids = [pan.nodes[router].me.id for router in pan.path(rng.randrange(40), key)]
        for before, after in pairwise(ids):
            nearer = space.distance(after, key) < space.distance(before, key)
            assert space.shared(after, key) > space.shared(before, key) or nearer
        assert ids[-1] == min((node.me.id for node in pan.nodes.values()), key=lambda id: (space.distance(id, key), id))
        assert len(ids) == len(set(ids)), "no node is visited twice"


def test_2_4_neighbours_are_the_routing_table_and_the_leaf_set() -> None:
    """The neighbouring brokers are the union of routing table and leaf set; every next hop is one of them."""
    pan, rng = overlay(40, 1), Random(2)
    for node in pan.nodes.values():
        neighbours = set(node.neighbours())
        assert neighbours >= set(node.leaves)
        assert len(neighbours) < len(pan.nodes) - 1, "no node needs to know all"
        hops = {node.next_hop(rng.randrange(pan.space.size)) for _ in range(50)}
        assert hops - {None} <= neighbours


@pytest.mark.parametrize("seed", SEEDS)
def test_2_4_if_the_next_hop_does_not_respond_another_way_is_tried(seed: int) -> None:
    """Nodes vanish without a word; a message that meets one goes by another node and still arrives at the closest."""
    pan, rng = overlay(40, seed), Random(seed)
    for router in rng.sample(range(40), 6):
        pan.crash(router)
    for number in range(20):
        key, source = rng.randrange(pan.space.size), rng.choice(list(pan.nodes))
        pan.route(source, key, str(number).encode())
        pan.calendar.run()
        router, arrived = pan.arrived[-1]
        assert (router, arrived.payload) == (pan.closest(key), str(number).encode())
    assert len(pan.arrived) == 20


@pytest.mark.parametrize("seed", SEEDS)
def test_2_4_a_node_joins_by_the_address_of_any_one_node(seed: int) -> None:
    """A new node needs one existing node. Afterwards those that must know it do: keys closest to it arrive there,
    wherever they enter, and it reaches all others."""
    pan, rng = overlay(30, seed), Random(seed)
    newcomer = pan.add(30, bootstrap=rng.randrange(30))
    pan.calendar.run()
    assert newcomer.joined
    for router in range(30):
        assert pan.path(router, newcomer.me.id)[-1] == 30
        assert pan.path(30, pan.nodes[router].me.id)[-1] == router


# --- 3.1: event types and rendezvous nodes ------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_3_1_1_the_rendezvous_node_is_the_broker_closest_to_the_hash_of_the_name(seed: int) -> None:
    """A type message installs the type at one broker, which depends on the type's name and not on who adds it; each
    other broker learns of the type there."""
    town = Town(20, seed)
    root = town.network.rendezvous("tick")
    adder, asker = town.others(2, seed)
    assert town.add_type(adder, TICK) is None
    assert {path[-1] for path in map(town.way_up, town.network.brokers)} == {root}
    keepers = {router for router, broker in town.network.brokers.items() if "tick" in broker.registry.held()}
    assert keepers == {root}
    assert town.network.brokers[asker].registry.types() == []
    town.subscribe(asker)
    assert town.network.brokers[asker].registry.types() == [TICK]
    error = town.add_type(asker, EventType("tick", None, {}))
    assert error is not None, "the rendezvous node knows another form"


def test_3_1_events_are_instances_of_a_type_and_checked() -> None:
    """Types form a hierarchy and events are checked against theirs, inherited attributes included."""
    types = TypeTree([TICK, BOND])
    assert types.check("bond", {"price": 1, "years": 2}) == []
    for name, attributes, code in (
        ("bond", {"price": 1}, "E_EVENT_MISSING"),
        ("bond", {"years": 1}, "E_EVENT_MISSING"),
        ("tick", {"price": "1"}, "E_EVENT_WRONG_TYPE"),
        ("tick", {"price": 1, "years": 2}, "E_EVENT_UNKNOWN"),
        ("share", {"price": 1}, "E_TYPE_UNKNOWN"),
    ):
        assert [problem.code for problem in types.check(name, attributes)] == [code]


@pytest.mark.parametrize("seed", SEEDS)
def test_3_1_1_subscribers_receive_events_of_subtypes_too(seed: int) -> None:
    """A subscription to a type receives the events of all its subtypes, and none of its ancestors', with a filter or
    without, whether it was made before or after the subtype was added."""
    town = Town(20, seed, TICK, BOND)
    at = town.others(6, seed)
    ticks, bonds = town.subscribe(at[0], "tick"), town.subscribe(at[1], "bond")
    dear = town.subscribe(at[2], "tick", over(10))
    assert town.add_type(at[3], LOAN) is None
    loans = town.subscribe(at[4], "loan")
    for name in ("tick", "bond", "loan"):
        town.advertise(at[5], name)
    found = {name: town.subscriptions_given(town.publish(at[5], 20, name)) for name in ("tick", "bond", "loan")}
    assert found == {
        "tick": {ticks: 1, dear: 1},
        "bond": {ticks: 1, dear: 1, bonds: 1},
        "loan": {ticks: 1, dear: 1, bonds: 1, loans: 1},
    }
    assert town.subscriptions_given(town.publish(at[5], 5, "loan")) == {ticks: 1, bonds: 1, loans: 1}


# --- 3.1.1 and Figure 2: advertisements and subscriptions ---------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_figure_2_advertisements_go_to_the_rendezvous_node_unless_covered(seed: int) -> None:
    """Lines 1 to 6: each broker on the way to the rendezvous node has an entry in advRT. An advertisement goes no
    further than where an earlier one was sent the same way."""
    town = Town(30, seed, TICK)
    publishers = town.others(12, seed)
    for router in publishers:
        town.advertise(router)
    ways = [town.way_up(router) for router in publishers]
    assert town.holding(InterestKind.ADVERTISED) == {router for way in ways for router in way}
    assert town.network.sent["advertisements"] == len(edges(*ways))
    town.advertise(publishers[0])
    assert town.network.sent["advertisements"] == len(edges(*ways)), "another client's is covered"
    assert all(broker.table_sizes()[0] <= 1 for broker in town.network.brokers.values())


@pytest.mark.parametrize("seed", SEEDS)
def test_figure_2_type_subscriptions_are_processed_alike(seed: int) -> None:
    """Lines 7 and 8: subscriptions by type go to the rendezvous node and are kept in subRT on the way, whether or not
    there are publishers; so both meet at the rendezvous node."""
    town = Town(30, seed, TICK)
    subscribers = town.others(12, seed)
    numbers = [town.subscribe(router) for router in subscribers]
    ways = [town.way_up(router) for router in subscribers]
    assert town.holding(InterestKind.TYPE) == {router for way in ways for router in way}
    assert town.network.sent["subscriptions"] == len(edges(*ways))
    again = town.subscribe(subscribers[0])
    assert town.network.sent["subscriptions"] == len(edges(*ways)), "another client's is covered"
    (publisher,) = town.others(1, seed, but=set(subscribers))
    town.advertise(publisher)
    root = town.network.rendezvous("tick")
    assert root in town.holding(InterestKind.ADVERTISED) & town.holding(InterestKind.TYPE)
    assert town.subscriptions_given(town.publish(publisher, 1)) == dict.fromkeys([*numbers, again], 1)


@pytest.mark.parametrize("seed", SEEDS)
def test_figure_2_filters_follow_advertisements_back_and_are_covered(seed: int) -> None:
    """Lines 9 to 14: a subscription by type and attributes also follows the reverse path of advertisements, so each
    broker from the publisher to the rendezvous node has its filter. A covered one goes nowhere else; subscriptions by
    type do not cover it."""
    town = Town(30, seed, TICK)
    publisher, subscriber = town.others(2, seed)
    town.advertise(publisher)
    town.subscribe(subscriber)
    assert publisher not in town.holding(InterestKind.TYPE) - {*town.way_up(subscriber)}
    town.subscribe(subscriber, filter=over(10))
    assert town.holding(InterestKind.FILTER) == {*town.way_up(subscriber), *town.way_up(publisher)}
    before = town.network.sent["subscriptions"]
    town.subscribe(subscriber, filter=over(20))
    assert town.network.sent["subscriptions"] == before, "over 10 covers over 20"
    town.subscribe(subscriber, filter=over(5))
    assert town.network.sent["subscriptions"] > before


# --- 3.1.1 and Figure 2: publications -----------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_figure_2_events_flow_up_advertisements_and_down_subscriptions(seed: int) -> None:
    """Lines 15 to 24: by type an event follows the forward path of advertisements to the rendezvous node and the
    reverse paths of subscriptions, one copy a link, from neighbour to neighbour."""
    town = Town(30, seed, TICK)
    publisher, *subscribers = town.others(5, seed)
    town.advertise(publisher)
    numbers = [town.subscribe(router) for router in subscribers]
    event = town.publish(publisher, 1)
    assert town.subscriptions_given(event) == dict.fromkeys(numbers, 1)
    up, downs = edges(town.way_up(publisher)), edges(*(town.way_up(router)[::-1] for router in subscribers))
    crossed = [edge for edge, _ in town.sent]
    assert up <= set(crossed) <= up | downs
    assert len(crossed) == len(set(crossed))


@pytest.mark.parametrize("seed", SEEDS)
def test_figure_2_an_event_is_filtered_near_its_publisher(seed: int) -> None:
    """Lines 25 to 28: by type and attributes an event follows the reverse paths of subscriptions alone. One that
    matches no filter leaves no broker; one that matches goes only where its subscribers are."""
    town = Town(30, seed, TICK)
    publisher, low, high = town.others(3, seed)
    town.advertise(publisher)
    cheap, dear = town.subscribe(low, filter=over(10)), town.subscribe(high, filter=over(50))
    assert town.subscriptions_given(town.publish(publisher, 5)) == {}
    assert town.sent == []
    assert town.subscriptions_given(town.publish(publisher, 20)) == {cheap: 1}
    assert {edge for edge, _ in town.sent} <= edges(town.way_up(publisher), town.way_up(low)[::-1])
    assert town.subscriptions_given(town.publish(publisher, 60)) == {cheap: 1, dear: 1}
    assert all(event.by_filter and not event.by_type for _, event in town.sent)


def test_3_1_1_events_for_filters_need_not_pass_the_rendezvous_node() -> None:
    """Published events are not forced to flow by the rendezvous node: where the ways of publisher and subscriber meet
    before it, an event turns there."""
    town = Town(40, 3, TICK)
    root = town.network.rendezvous("tick")
    by_last: dict[int, list[int]] = {}
    for router in town.network.brokers:
        if len(way := town.way_up(router)) > 2:
            by_last.setdefault(way[-2], []).append(router)
    publisher, subscriber = max(by_last.values(), key=len)[:2]
    town.advertise(publisher)
    number = town.subscribe(subscriber, filter=over(10))
    assert town.subscriptions_given(town.publish(publisher, 20)) == {number: 1}
    assert town.sent
    assert root not in {router for edge, _ in town.sent for router in edge}
    by_type = town.subscribe(subscriber)
    assert town.subscriptions_given(town.publish(publisher, 20)) == {number: 1, by_type: 1}
    assert root in {router for edge, _ in town.sent for router in edge}


@pytest.mark.parametrize("seed", SEEDS)
def test_figure_2_two_flags_keep_both_flows_from_delivering_twice(seed: int) -> None:
    """A broker that lies on flows of both kinds gets one copy with both flags, so no client gets an event twice."""
    town = Town(20, seed, TICK)
    publisher, *subscribers = town.others(8, seed)
    town.advertise(publisher)
    numbers = [town.subscribe(router, filter=filter) for router in subscribers for filter in (None, over(10), over(15))]
    assert town.subscriptions_given(town.publish(publisher, 20)) == dict.fromkeys(numbers, 1)
    crossed = [edge for edge, _ in town.sent]
    assert len(crossed) == len(set(crossed))
    assert any(event.by_type and event.by_filter for _, event in town.sent)


# --- 2.5 and 2.3: scalability, robustness -------------------------------------------------------------------------


def test_2_5_nothing_is_broadcast_and_state_stays_on_the_ways() -> None:
    """Hermes does not spread information to all brokers: those that lie on nobody's way to the rendezvous node have
    no entry and see no message."""
    town = Town(60, 1, TICK)
    publisher, first, second = town.others(3, 1)
    town.advertise(publisher)
    town.subscribe(first)
    town.subscribe(second, filter=over(10))
    on_the_way = {router for one in (publisher, first, second) for router in town.way_up(one)}
    assert len(on_the_way) < 15
    with_state = {router for router, broker in town.network.brokers.items() if broker.table_sizes() != (0, 0)}
    assert with_state == on_the_way
    town.publish(publisher, 20)
    assert {router for edge, _ in town.sent for router in edge} <= on_the_way


def test_2_3_routing_state_is_soft() -> None:
    """State that nobody refreshes is forgotten; state that is refreshed stays."""
    town = Town(12, 1, TICK, timers=True)
    first, second = town.others(2, 1, but={0})
    town.advertise(first)
    town.advertise(second)
    town.network.harness.crash(str(second))  # in silence: no link is reported as lost
    town.rest(3 * OPTIONS.lifetime_ms)
    assert town.holding(InterestKind.ADVERTISED) == set(town.way_up(first))
    town.network.harness.crash(str(first))
    town.rest(3 * OPTIONS.lifetime_ms)
    assert [broker.table_sizes() for broker in town.network.brokers.values()] == [(0, 0)] * 10


@pytest.mark.parametrize("seed", [1, 2])
def test_2_4_the_next_closest_broker_replaces_a_lost_rendezvous_node(seed: int) -> None:
    """When a rendezvous node fails, the key belongs to the next closest broker. Subscribers keep receiving, a
    persistent event that was accepted before the failure is not lost, and the new node knows the type."""
    town = Town(16, seed, TICK, timers=True)
    publisher, *subscribers, late = town.others(6, seed, but={0})
    town.advertise(publisher)
    numbers = [town.subscribe(router) for router in subscribers]
    root = town.network.rendezvous("tick")
    heir = town.pan.nodes[root].second(town.pan.space.hash("tick"))
    assert heir is not None
    town.network.crash(root)
    kept = town.publish(publisher, 1, persistent=True)
    assert town.network.rendezvous("tick") == heir.router
    town.rest(NOTICE_MS + OPTIONS.settle_ms + OPTIONS.refresh_ms)
    assert town.subscriptions_given(kept) == dict.fromkeys(numbers, 1)
    assert "tick" in town.network.brokers[heir.router].registry.held()
    numbers.append(town.subscribe(late))
    assert town.subscriptions_given(town.publish(publisher, 1)) == dict.fromkeys(numbers, 1)
