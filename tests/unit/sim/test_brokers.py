"""Networks of whole brokers, one case at a time; random ones are in `test_simulate.py`."""

from functools import partial
from random import Random
from typing import Any

import pytest
from hardening.simulate.scenario import LINK

from tidings.kernel.codec import encode_message
from tidings.matching.encoding import Encoding
from tidings.model.codec import encode_predicate
from tidings.model.destination import Destination, DestinationPattern
from tidings.model.message import Message
from tidings.model.message_id import COUNTER_MAX, MessageId
from tidings.model.predicate import Predicate
from tidings.model.selector import Selector
from tidings.model.values import Value
from tidings.node.encoded_message import ID
from tidings.node.network.link_channels import control_frame
from tidings.node.network.settings import NetworkSettings
from tidings.node.requests import Advertise, Request, Unadvertise
from tidings.overlay import effects as fx
from tidings.overlay.topology.graph import Graph
from tidings.routing.bdrp.advertisement import Change, encode_advertisement
from tidings.routing.bdrp.interests import InterestEncoding
from tidings.routing.bdrp.scheme import BdrpOptions
from tidings.routing.control.flood import FloodOptions
from tidings.routing.control.messages import FloodItem, Topic, Version
from tidings.sim.brokers import Brokers
from tidings.sim.faults import Clog, Crash, CutLink, FullDisk, HealLink, Restart, SetClock, Unclog, inflict


def line(
    *, latency_ms: float = 5.0, size: int = 3, encodings: dict[int, InterestEncoding] | None = None, **settings: object
) -> Brokers:
    graph = Graph()
    for router in range(1, size):
        graph.add(router, router + 1, latency_ms)
    each = {
        router: NetworkSettings(
            router,
            dials=((str(router + 1), router + 1),) if router < size else (),
            link=LINK,
            costs={router - 1: 5, router + 1: 5},
            **(settings | ({"encoding": encodings[router]} if encodings and router in encodings else {})),  # type: ignore[arg-type]
        )
        for router in range(1, size + 1)
    }
    return Brokers(graph, each, seed=1)


@pytest.mark.parametrize("vectors", [True, False])
def test_brokers_without_the_key_forward_what_they_cannot_read(vectors: bool) -> None:
    key = 0x5EC2E7
    keyed = InterestEncoding(Encoding(key=key), vectors=vectors)
    brokers = line(encodings={2: InterestEncoding(Encoding(), vectors=vectors, keyless=True)}, encoding=keyed)
    subscriber = brokers.subscribe(3, "x = 1")
    alone = brokers.subscribe(2, "x = 1")
    assert subscriber is not None
    assert alone is not None
    brokers.calendar.run(until=3000)
    for persistent in (False, True):
        brokers.publish(1, {"x": 1}, persistent=persistent)
        brokers.publish(1, {"x": 2}, persistent=persistent)
        brokers.publish(2, {"x": 1}, persistent=persistent)
    brokers.calendar.run(until=5000)
    brokers.collect()
    assert sum(subscriber.got.values()) == 2
    assert sum(alone.got.values()) == 2  # of its own broker's clients: others cannot know that it is there
    inner = brokers.broker(2)
    assert inner is not None
    assert inner.forwarder.network_stats()["relayed"] == 1  # the persistent one was stored and sent on
    rows = inner.network.scheme.predicates[3]  # all it knows of the subscription
    wanted = Predicate(Selector("x = 1").conjunctions).within(DestinationPattern.parse("ticks").constraint)
    guess = encode_predicate(wanted)
    assert keyed.rows(guess) == rows
    for wrong in (0, 1, key + 1):  # without the key it cannot even tell whether a guess is right
        assert not InterestEncoding(Encoding(key=wrong), vectors=vectors).rows(guess) & rows


def test_brokers_with_another_key_get_everything_and_lose_nothing() -> None:
    brokers = line(encodings={2: InterestEncoding(Encoding(key=2))}, encoding=InterestEncoding(Encoding(key=1)))
    subscribers = [brokers.subscribe(router, "x = 1") for router in (2, 3)]
    brokers.calendar.run(until=2000)
    assert [sorted(one.network.links.peers()) for one in brokers.running().values()] == [[2], [1, 3], [2]]
    for x in (1, 2):
        brokers.publish(1, {"x": x})
        brokers.publish(2, {"x": x}, persistent=True)
    brokers.calendar.run(until=3000)
    brokers.collect()
    assert [sum(one.got.values()) for one in subscribers if one is not None] == [2, 2]
    first = brokers.broker(1)
    assert first is not None
    assert first.network.scheme.counts()["foreign"] == 1, "3 uses the key of 1, 2 another"


def test_under_covering_publishers_wait_for_a_link_that_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    brokers = line(size=2, scheme="covering", backlog_bytes_max=1 << 16)
    subscriber = brokers.subscribe(2, "x = 1")
    assert subscriber is not None
    brokers.calendar.run(until=3000)
    first = brokers.broker(1)
    assert first is not None
    client = first.connect(3000.0)
    (link,) = first._links.values()
    monkeypatch.setattr(first, "_output", lambda now: False)  # the socket takes nothing more
    count, body = 200, bytes(1000)
    for number in range(count):
        message = Message(Destination("ticks"), {"x": 1}, body, id=MessageId(1, 1, 3000, number))
        first.publish(3000.0, client, encode_message(message))
    waiting = first.forwarder.output_bytes(link)
    assert 1 << 16 <= waiting < 70_000  # not more than the message that filled it
    assert len(client.outgoing) > count * len(body) - waiting
    monkeypatch.undo()
    brokers.calendar.run(until=4000)
    brokers.collect()
    assert sum(subscriber.got.values()) == count
    assert first.network.scheme.counts().get("dropped_link", 0) == 0


def test_under_covering_subscriptions_of_a_broker_may_travel_as_one() -> None:
    brokers = line(scheme="covering", merge=True)
    low, high = (brokers.subscribe(3, text) for text in ("x < 10", "x BETWEEN 10 AND 20"))
    assert low is not None
    assert high is not None
    brokers.calendar.run(until=3000)

    def known() -> int:
        first = brokers.broker(1)
        assert first is not None
        return first.network.scheme.counts()["entries"]

    def publish(until: float) -> None:
        for x in (5, 10, 20, 21):
            brokers.publish(1, {"x": x})
        brokers.calendar.run(until=until)
        brokers.collect()

    assert known() == 1
    publish(3500)
    assert (sum(low.got.values()), sum(high.got.values())) == (1, 2)
    brokers.unsubscribe(low)
    brokers.calendar.run(until=5000)
    assert known() == 1
    publish(5500)
    assert sum(high.got.values()) == 4
    third = brokers.broker(3)
    assert third is not None
    assert third.network.scheme.counts()["publications"] == 3 + 2  # and not what only the other wanted
    brokers.unsubscribe(high)
    brokers.calendar.run(until=7000)
    assert known() == 0


@pytest.mark.parametrize("cover", [False, True])
def test_under_covering_advertisements_that_others_cover_need_not_be_told(cover: bool) -> None:
    brokers = line(scheme="covering", advertise=("ticks.>", "ticks", "ticks.a"), cover_advertisements=cover)
    subscriber = brokers.subscribe(3, "x = 1")
    assert subscriber is not None
    brokers.calendar.run(until=3000)
    third: Any = brokers.broker(3)
    known = third.network.scheme.machine.advertisements
    assert len(known) == (5 if cover else 9), "its own three, and of the others what those of a neighbour do not cover"
    brokers.publish(1, {"x": 1}, persistent=False)
    brokers.calendar.run(until=4000)
    brokers.collect()
    assert sum(subscriber.got.values()) == 1


def test_under_covering_clients_advertise_what_they_publish() -> None:
    brokers = line(scheme="covering", advertise=())
    subscriber = brokers.subscribe(3, "x = 1")
    assert subscriber is not None
    brokers.calendar.run(until=3000)
    first = brokers.broker(1)
    assert first is not None
    client = first.connect(3000.0, "publisher")

    def deliveries(until: float) -> int:
        brokers.publish(1, {"x": 1})
        brokers.publish(1, {"x": 2})
        brokers.calendar.run(until=until)
        brokers.collect()
        assert subscriber is not None
        return sum(subscriber.got.values())

    def ask(request: Request, until: float) -> None:
        brokers.driver.call("1", lambda machine, now: machine.request(now, client, request))
        brokers.calendar.run(until=until)

    assert deliveries(3500) == 0  # nothing is advertised
    ask(Advertise(1, 1, "other.>"), 4000)
    assert deliveries(4500) == 0
    ask(Advertise(2, 2, "*", "x < 10"), 5000)
    assert deliveries(5500) == 1
    ask(Unadvertise(3, 2), 6000)
    assert deliveries(6500) == 1
    ask(Advertise(4, 2, "ticks"), 7000)
    assert deliveries(7500) == 2
    brokers.driver.call("1", lambda machine, now: machine.disconnect(now, client))
    brokers.calendar.run(until=8000)
    assert deliveries(8500) == 2  # it ended with its client
    assert not client.failures
    assert first.network.scheme.counts()["unadvertised"] == 8


def test_a_persistent_message_waits_for_a_broker_that_is_away() -> None:
    brokers = line()
    brokers.subscribe(3, "x = 1", durable=True)
    brokers.calendar.run(until=3000)
    inflict(brokers.driver, Crash(3))
    brokers.calendar.run(until=4000)
    wanted: dict[str, Value] = {"x": 1}
    for _ in range(5):
        assert brokers.publish(1, dict(wanted), persistent=True)
        assert brokers.publish(1, {"x": 2}, persistent=True)
    brokers.calendar.run(until=5000)
    first, second = brokers.broker(1), brokers.broker(2)
    assert first is not None
    assert second is not None
    assert len(first.network.store_and_forward) == 5  # there is no route, so it does not travel
    assert len(second.network.store_and_forward) == 0
    inflict(brokers.driver, Crash(1))
    inflict(brokers.driver, Restart(1))
    inflict(brokers.driver, Restart(3))
    brokers.calendar.run(until=12_000)
    brokers.read_durables()
    brokers.calendar.run(until=12_100)
    brokers.check_durable()
    brokers.check_nobody_twice()
    brokers.check_tables()
    assert sum(brokers.subscribers[0].got.values()) == 5


def test_a_full_disk_does_not_break_links() -> None:
    brokers = line()
    durable, light = brokers.subscribe(3, "x >= 0", durable=True), brokers.subscribe(3, "x < 0")
    assert durable is not None
    assert light is not None
    calendar = brokers.calendar
    calendar.run(until=3000)
    second, third = brokers.broker(2), brokers.broker(3)
    assert second is not None
    assert third is not None
    links = dict(third._links)
    brokers.hosts[3].full = True
    for number in range(40):
        calendar.at(3000.0 + 100 * number, partial(brokers.publish, 1, {"x": number}, persistent=True))
        calendar.at(3050.0 + 100 * number, partial(brokers.publish, 1, {"x": -1 - number}))
    calendar.run(until=8000)
    brokers.collect()
    assert sum(light.got.values()) == 40
    assert len(second.network.store_and_forward) == 40
    brokers.hosts[3].full = False
    calendar.run(until=12_000)
    assert third._links == links
    assert len(second.network.store_and_forward) == 0
    brokers.read_durables()
    calendar.run(until=12_100)
    brokers.check_durable()
    brokers.check_nobody_twice()
    assert durable.order == [one.id for one in brokers.publications if one.persistent]


def test_a_broker_that_comes_back_alone_knows_whom_messages_are_for() -> None:
    brokers = line()
    brokers.subscribe(3, "x = 1", durable=True)
    brokers.calendar.run(until=3000)
    inflict(brokers.driver, CutLink(1, 2))
    inflict(brokers.driver, Crash(1))
    inflict(brokers.driver, Restart(1))
    brokers.calendar.run(until=4000)
    assert brokers.publish(1, {"x": 1}, persistent=True)
    brokers.calendar.run(until=5000)
    inflict(brokers.driver, HealLink(1, 2))
    brokers.calendar.run(until=12_000)
    brokers.read_durables()
    brokers.calendar.run(until=12_100)
    brokers.check_durable()
    assert sum(brokers.subscribers[0].got.values()) == 1


def test_a_broker_that_has_confirmed_by_an_interest_knows_it_after_a_crash() -> None:
    """It learns of a subscription, confirms a message for it and crashes, all between two of its ticks."""
    brokers = line()
    brokers.calendar.run(until=3050)
    brokers.subscribe(3, "x = 1", durable=True)
    brokers.calendar.run(until=3600)
    first = brokers.publish(1, {"x": 1}, persistent=True)
    brokers.calendar.run(until=3700)
    assert first is not None
    assert first.accepted
    inflict(brokers.driver, CutLink(1, 2))
    inflict(brokers.driver, Crash(1))
    inflict(brokers.driver, Restart(1))
    brokers.calendar.run(until=3900)
    assert brokers.publish(1, {"x": 1}, persistent=True)
    brokers.calendar.run(until=5000)
    inflict(brokers.driver, HealLink(1, 2))
    brokers.calendar.run(until=12_000)
    brokers.read_durables()
    brokers.calendar.run(until=12_100)
    brokers.check_durable()
    assert sum(brokers.subscribers[0].got.values()) == 2


def test_a_vanished_router_is_given_up_in_the_end() -> None:
    brokers = line(bdrp=BdrpOptions(retain_ms=5000), flood=FloodOptions(lifetime_ms=9000, renew_ms=3000))
    brokers.subscribe(3, "x = 1", durable=True)
    brokers.calendar.run(until=3000)
    inflict(brokers.driver, Crash(3))
    brokers.calendar.run(until=4000)
    brokers.publish(1, {"x": 1}, persistent=True)
    brokers.calendar.run(until=5000)
    first = brokers.broker(1)
    assert first is not None
    assert len(first.network.store_and_forward) == 1
    brokers.calendar.run(until=30_000)
    assert len(first.network.store_and_forward) == 0
    assert first.network.store_and_forward.abandoned == 1
    assert 3 not in first.network.scheme.predicates


def test_flooding_costs_more_where_there_are_cycles() -> None:
    copies = {}
    for scheme in ("bdrp", "flooding"):
        graph = Graph()
        ring = [(1, 2), (2, 3), (3, 4), (4, 1), (1, 3)]
        for a, b in ring:
            graph.add(a, b, 5.0)
        settings = {
            router: NetworkSettings(
                router,
                dials=tuple((str(b), b) for a, b in ring if a == router),
                scheme=scheme,
                link=LINK,
                costs=dict.fromkeys(range(1, 5), 5),
            )
            for router in range(1, 5)
        }
        brokers = Brokers(graph, settings, seed=1)
        brokers.subscribe(3, "x = 1")
        brokers.calendar.run(until=3000)
        published = [brokers.publish(1, {"x": x}) for x in (1, 1, 2)]
        brokers.calendar.run(until=4000)
        brokers.check_delivered([one for one in published if one])
        brokers.check_nobody_twice()
        copies[scheme] = sum(one.forwarder.network_stats()["copies"] for one in brokers.running().values())
    assert copies["bdrp"] == 2  # by the diagonal, one each
    assert copies["flooding"] > 3 * copies["bdrp"]


def test_a_link_that_flaps_for_a_minute_under_load_loses_nothing() -> None:
    """Up and down every 0.1 to 5 s, as slow and as fast as faults come; the way around it is there half of the time."""
    rng = Random(3)
    graph = Graph()
    edges = [(1, 2), (2, 3), (3, 4), (4, 1)]
    for a, b in edges:
        graph.add(a, b, 2.0)
    settings = {
        router: NetworkSettings(
            router,
            dials=tuple((str(b), b) for a, b in edges if a == router),
            link=LINK,
            costs=dict.fromkeys(range(1, 5), 2),
        )
        for router in range(1, 5)
    }
    brokers = Brokers(graph, settings, seed=1)
    calendar = brokers.calendar
    brokers.subscribe(3, "x >= 0", durable=True)
    brokers.subscribe(2, "x >= 0")
    calendar.run(until=3000)
    at = 3000.0
    while at < 63_000:
        a, b = rng.choice(edges)
        calendar.at(at, inflict, brokers.driver, CutLink(a, b))
        at += rng.uniform(100, 5000)
        calendar.at(at, inflict, brokers.driver, HealLink(a, b))
        at += rng.uniform(0, 500)
    for number in range(600):
        for persistent in (False, True):
            publish = partial(brokers.publish, 1, {"x": number}, persistent=persistent)
            calendar.at(3000.0 + 100 * number + 50 * persistent, publish)
    calendar.run(until=at + 10_000)
    brokers.check_tables()
    brokers.check_nobody_twice()
    brokers.read_durables()
    calendar.run(until=calendar.now + 200)
    brokers.check_durable()
    durable = brokers.subscribers[0]
    assert sum(one.persistent and one.id in durable.got for one in brokers.publications) == 600


def test_a_broker_whose_clock_was_set_back_is_heard_after_a_restart() -> None:
    brokers = line()
    brokers.calendar.run(until=3000)
    inflict(brokers.driver, SetClock(3, -3_600_000), brokers.hosts)
    inflict(brokers.driver, Crash(3))
    inflict(brokers.driver, Restart(3))
    brokers.subscribe(3, "x = 1")
    brokers.calendar.run(until=8000)
    brokers.check_tables()
    published = brokers.publish(1, {"x": 1})
    brokers.calendar.run(until=9000)
    assert published
    brokers.check_delivered([published])


def test_what_is_clogged_comes_late_and_whole() -> None:
    brokers = line()
    brokers.subscribe(3, "x >= 0")
    brokers.calendar.run(until=3000)
    inflict(brokers.driver, Clog(2, 3))
    published = [brokers.publish(1, {"x": number}) for number in range(5)]
    brokers.calendar.run(until=3300)
    subscriber = brokers.subscribers[0]
    brokers.collect()
    assert subscriber.order == []
    inflict(brokers.driver, Unclog(2, 3))
    brokers.calendar.run(until=3400)
    brokers.collect()
    assert subscriber.order == [one.id for one in published if one]


def test_nothing_is_accepted_that_a_full_disk_cannot_keep() -> None:
    brokers = line()
    brokers.subscribe(3, "x >= 0", durable=True)
    brokers.calendar.run(until=3000)
    inflict(brokers.driver, FullDisk(1, True), brokers.hosts)
    refused = brokers.publish(1, {"x": 1}, persistent=True)
    brokers.calendar.run(until=3500)
    inflict(brokers.driver, FullDisk(1, False), brokers.hosts)
    accepted = brokers.publish(1, {"x": 2}, persistent=True)
    brokers.calendar.run(until=8000)
    assert refused
    assert accepted
    assert (refused.accepted, accepted.accepted) == (False, True)
    brokers.read_durables()
    brokers.calendar.run(until=8100)
    brokers.collect()
    assert brokers.subscribers[0].order == [accepted.id]


def test_what_someone_else_said_in_a_brokers_name_costs_no_message() -> None:
    """Another broker with the number 3 was linked for a moment, later than 3 was started: it wants nothing."""
    brokers = line()
    subscriber = brokers.subscribe(3, "x = 1", durable=True)
    assert subscriber is not None
    brokers.calendar.run(until=3000)
    inner = brokers.broker(2)
    assert inner is not None
    link = inner.network.links.link(1)
    assert link is not None
    encoding = InterestEncoding()
    nothing = encode_advertisement(Change(), encoding.form, encoding.row_bytes)
    later = inner.network.incarnation + 3_600_000
    stranger: Any = control_frame(FloodItem(Topic.PREDICATES, 3, Version(later, 1), 90_000, True, nothing))
    brokers.driver.call("2", lambda machine, now: machine.step(now, fx.Received(link.connection, stranger)))
    brokers.calendar.run(until=3001)
    assert inner.network.scheme.predicates[3] == set()
    brokers.calendar.run(until=5000)
    brokers.publish(1, {"x": 1}, persistent=True)
    brokers.calendar.run(until=7000)
    brokers.check_tables()
    brokers.read_durables()
    brokers.calendar.run(until=8000)
    brokers.collect()
    assert sum(subscriber.got.values()) == 1
    inflict(brokers.driver, Crash(3))
    inflict(brokers.driver, Restart(3))
    brokers.calendar.run(until=9000)
    again = brokers.broker(3)
    assert again is not None
    assert again.network.incarnation > later + 1  # its next life knows


def test_messages_of_one_moment_have_ids_of_their_own() -> None:
    brokers = line(size=2)
    ids = [brokers.message(1, {}, persistent=False)[ID] for _ in range(COUNTER_MAX + 3)]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("vectors", [True, False])
def test_who_wants_more_than_can_be_told_misses_nothing(vectors: bool) -> None:
    little = BdrpOptions(first_bytes_max=16)
    brokers = line(encoding=InterestEncoding(Encoding(), vectors=vectors), bdrp=little)
    subscribers = [brokers.subscribe(3, f"x = {number}") for number in range(4)]
    brokers.calendar.run(until=3000)
    for number in range(5):
        brokers.publish(1, {"x": number}, persistent=False)
    brokers.calendar.run(until=5000)
    brokers.collect()
    assert [one is not None and sum(one.got.values()) for one in subscribers] == [1, 1, 1, 1]
