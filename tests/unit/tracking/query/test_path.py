"""Path reconstruction against the truth: random trees, injected false positives, brokers that do not answer."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.errors import RemoteProtocolError
from tidings.model.message_id import MessageId
from tidings.tracking.query.path import Path, PathSearch
from tidings.tracking.trace_answer import Statement, TraceAnswer, TraceVerdict


class Net:
    """A random tree, a message from broker 1 to some, and brokers that claim it falsely."""

    def __init__(self, seed: int, size: int, false_share: float, *, forwards: bool = False) -> None:
        self.rng = random.Random(seed)
        self.message = MessageId(7, 1, 1000)
        self.links: dict[int, set[int]] = {1: set()}
        self.parent: dict[int, int] = {}
        for broker in range(2, size + 1):
            self.parent[broker] = self.rng.randrange(1, broker)
            self.links[broker] = {self.parent[broker]}
            self.links[self.parent[broker]].add(broker)
        self.wanted = {broker for broker in self.links if self.rng.random() < 0.3}
        self.route = {1}
        for broker in self.wanted:
            while broker not in self.route:
                self.route.add(broker)
                broker = self.parent[broker]
        self.false = {b for b in self.links if b not in self.route and self.rng.random() < false_share}
        self.forwards = forwards

    def answer(self, broker: int) -> TraceAnswer:
        if broker not in self.route | self.false:
            return TraceAnswer(broker, TraceVerdict.ABSENT, 0.0, tuple(self.links[broker]))
        subscribers = (Statement(f"s{broker}", 1e-6),) if broker in self.wanted & self.route else ()
        given = tuple(b for b in self.links[broker] if b in self.route and self.parent.get(b) == broker)
        forwarded = given if self.forwards else None
        return TraceAnswer(
            broker,
            TraceVerdict.HELD,
            1e-5,
            tuple(self.links[broker]),
            forwarded,
            subscribers,
            filters=2,
            entered=broker == self.message.broker,
        )

    def trace(self, seed: int, down: set[int] = frozenset(), *, everywhere: bool = False) -> Path:  # type: ignore[assignment]
        order = random.Random(seed)
        search = PathSearch(self.message, self.links if down else None, everywhere=everywhere)
        questions = search.start()
        while questions:
            broker = questions.pop(order.randrange(len(questions))).broker
            new = search.failed(broker, "timeout") if broker in down else search.answered(self.answer(broker))
            questions += new
        assert search.done
        return search.report()


seeds = st.integers(0, 2**32)
sizes = st.integers(1, 25)


@given(seeds, sizes)
def test_without_false_positives_the_route_is_exact(seed: int, size: int) -> None:
    net = Net(seed, size, 0.0)
    path = net.trace(seed)
    assert {hop.broker: hop.sender for hop in path.hops} == {b: net.parent.get(b) for b in net.route}
    assert {one.peer for _, one in path.subscribers} == {f"s{broker}" for broker in net.wanted}
    assert path.confirmed
    assert path.complete
    assert path.false_positives == ()
    assert not any(hop.suspect or hop.opaque for hop in path.hops if hop.broker != 1 and not hop.sender)
    assert not any(hop.other_senders for hop in path.hops)  # in a tree there is one way
    beside = {b for broker in net.route for b in net.links[broker]} | net.route
    assert path.asked == len(beside)  # the route and its neighbours, not the network


@given(seeds, sizes, st.floats(0, 0.6))
def test_false_positives_add_but_never_take(seed: int, size: int, share: float) -> None:
    net = Net(seed, size, share)
    path = net.trace(seed)
    hops = {hop.broker: hop for hop in path.hops}
    assert net.route <= hops.keys() <= net.route | net.false
    assert all(hops[broker].sender == net.parent.get(broker) for broker in hops)
    rim = {b for b in hops.keys() & net.false if not (net.links[b] & hops.keys()) - {net.parent[b]}}
    assert {broker for broker, hop in hops.items() if hop.suspect} == rim
    assert not any(hop.other_senders for hop in path.hops)
    for broker, hop in hops.items():  # the order names senders first
        assert hop.sender is None or list(hops).index(hop.sender) < list(hops).index(broker)


@given(seeds, sizes, st.floats(0, 0.6))
def test_asked_everywhere_isolated_claims_are_recognised(seed: int, size: int, share: float) -> None:
    net = Net(seed, size, share)
    path = net.trace(seed, everywhere=True)
    claims = net.route | net.false
    isolated = {broker for broker in net.false if not net.links[broker] & claims}
    assert {hop.broker for hop in path.false_positives} == isolated
    assert {hop.broker for hop in path.hops} == claims - isolated
    assert path.asked == size


@given(seeds, sizes, st.floats(0, 0.6))
def test_forward_histories_keep_the_search_on_the_route(seed: int, size: int, share: float) -> None:
    net = Net(seed, size, share, forwards=True)
    path = net.trace(seed)
    assert {hop.broker for hop in path.hops} == net.route
    assert path.asked == len(net.route)
    assert not any(hop.other_senders for hop in path.hops)


@given(seeds, sizes, st.floats(0, 0.5), st.floats(0, 0.5))
def test_the_order_of_answers_does_not_matter(seed: int, size: int, share: float, dead: float) -> None:
    net = Net(seed, size, share)
    down = {broker for broker in net.links if net.rng.random() < dead}
    first, second = net.trace(1, down), net.trace(2, down)
    assert first == second
    hops = {hop.broker: hop for hop in first.hops}
    assert net.route - down <= hops.keys()
    assert first.unasked == dict.fromkeys(sorted(first.unasked), "timeout")
    assert set(first.unasked) <= down
    assert all(hops[b].opaque for b in hops.keys() & down)


def test_an_origin_that_denies_is_not_believed_before_all_have_denied() -> None:
    search = PathSearch(MessageId(7, 1, 1000), {4: (5,)})
    search.start()
    asked = search.answered(TraceAnswer(1, TraceVerdict.ABSENT, 0.0, (2, 3)))
    assert sorted(ask.broker for ask in asked) == [2, 3, 4, 5]
    for ask in asked:
        assert search.answered(TraceAnswer(ask.broker, TraceVerdict.ABSENT)) == []
    path = search.report()
    assert (path.confirmed, path.asked, path.entered) == (False, 5, ())
    assert [hop.broker for hop in path.hops] == [1]


@pytest.mark.parametrize("verdict", [TraceVerdict.ABSENT, TraceVerdict.UNKNOWN])
def test_a_message_whose_publisher_moved_is_found_where_it_entered(verdict: TraceVerdict) -> None:
    """Its id names broker 1. It was published at 5, and went on to 6; 4 claims it falsely."""
    message = MessageId(7, 1, 1000)
    links = {1: (2,), 2: (1, 3, 5), 3: (2, 4), 4: (3,), 5: (2, 6), 6: (5,)}
    held = {
        5: TraceAnswer(5, TraceVerdict.HELD, 1e-5, links[5], entered=True),
        6: TraceAnswer(6, TraceVerdict.HELD, 1e-5, links[6], subscribers=(Statement("audit", 1e-5),)),
        4: TraceAnswer(4, TraceVerdict.HELD, 1e-5, links[4]),
        1: TraceAnswer(1, verdict, 0.0, links[1], publisher="user 'ann'"),
    }
    search = PathSearch(message, links)
    asked = search.start()
    while asked:
        broker = asked.pop().broker
        asked += search.answered(held.get(broker, TraceAnswer(broker, TraceVerdict.ABSENT, 0.0, links[broker])))
    path = search.report()
    assert (path.confirmed, path.entered, path.publisher) == (True, (5,), "user 'ann'")
    assert [(hop.broker, hop.sender) for hop in path.hops if not hop.opaque] == [(5, None), (6, 5)]
    assert [one.peer for _, one in path.subscribers] == ["audit"]
    assert [hop.broker for hop in path.false_positives] == [4]


def test_an_origin_that_claims_by_mistake_is_suspect_once_all_were_asked() -> None:
    for probability, everywhere in ((1e-2, True), (0.0, True), (1e-2, False)):
        search = PathSearch(MessageId(7, 1, 1000), {1: (2,)}, everywhere=everywhere)
        asked = search.start()
        while asked:
            broker = asked.pop().broker
            claim = TraceAnswer(1, TraceVerdict.HELD, probability, (2,), entered=True)
            asked += search.answered(claim if broker == 1 else TraceAnswer(2, TraceVerdict.ABSENT, 0.0, (1,)))
        assert [hop.suspect for hop in search.report().hops] == [probability > 0 and everywhere]


def test_lost_records_are_gone_through() -> None:
    message = MessageId(7, 1, 1000)
    search = PathSearch(message)
    search.start()
    search.answered(TraceAnswer(1, TraceVerdict.HELD, 1e-5, (2,)))
    (ask,) = search.answered(TraceAnswer(2, TraceVerdict.UNKNOWN, 0.0, (1, 3), incomplete=True))
    assert ask.broker == 3
    search.answered(TraceAnswer(3, TraceVerdict.HELD, 1e-5, (2,), subscribers=(Statement("audit", 1e-5),)))
    path = search.report()
    assert [(hop.broker, hop.sender, hop.opaque) for hop in path.hops] == [
        (1, None, False),
        (2, 1, True),
        (3, 2, False),
    ]
    assert path.unknown == (2,)
    assert not path.complete


def test_in_a_ring_both_possible_senders_are_named() -> None:
    search = PathSearch(MessageId(7, 1, 1000))
    questions = search.start()
    ring = {1: (2, 3), 2: (1, 4), 3: (1, 4), 4: (2, 3)}
    while questions:
        broker = questions.pop().broker
        questions += search.answered(TraceAnswer(broker, TraceVerdict.HELD, 1e-5, ring[broker]))
    last = search.report().hops[-1]
    assert (last.broker, last.sender, last.other_senders) == (4, 2, (3,))


def test_on_a_line_a_broker_has_nothing_from_the_one_behind_it() -> None:
    search = PathSearch(MessageId(7, 1, 1000))
    questions = search.start()
    line = {1: (2,), 2: (1, 3), 3: (2,)}
    while questions:
        broker = questions.pop().broker
        questions += search.answered(TraceAnswer(broker, TraceVerdict.HELD, 1e-5, line[broker]))
    assert [(hop.broker, hop.sender, hop.other_senders) for hop in search.report().hops] == [
        (1, None, ()),
        (2, 1, ()),
        (3, 2, ()),
    ]


@given(seeds, sizes, st.floats(0, 0.3))
def test_other_senders_are_those_that_can_have_it_from_elsewhere(seed: int, size: int, density: float) -> None:
    rng = random.Random(seed)
    pairs = [(a, b) for b in range(2, size + 1) for a in range(1, b)]
    linked = [(a, b) for a, b in pairs if rng.random() < density]
    links = {broker: {a + b - broker for a, b in linked if broker in (a, b)} for broker in range(1, size + 1)}
    search = PathSearch(MessageId(7, 1, 1000))
    questions = search.start()
    while questions:
        broker = questions.pop().broker
        questions += search.answered(TraceAnswer(broker, TraceVerdict.HELD, 1e-5, tuple(links[broker])))
    for hop in search.report().hops[1:]:
        without = reached(1, {b: around - {hop.broker} for b, around in links.items()})
        assert hop.other_senders == tuple(sorted((links[hop.broker] & without) - {hop.sender}))


def reached(start: int, links: dict[int, set[int]]) -> set[int]:
    found, fresh = {start}, [start]
    while fresh:
        fresh += (new := links[fresh.pop()] - found)
        found |= new
    return found


def test_only_answers_to_questions_count() -> None:
    search = PathSearch(MessageId(7, 1, 1000))
    search.start()
    with pytest.raises(RemoteProtocolError, match="E_TRACE_ANSWER"):
        search.answered(TraceAnswer(2, TraceVerdict.HELD))
    search.failed(1, "gone")
    with pytest.raises(RemoteProtocolError, match="E_TRACE_ANSWER"):
        search.failed(1, "gone")


def test_a_liar_cannot_make_the_search_endless() -> None:
    search = PathSearch(MessageId(7, 1, 1000), brokers_max=50)
    search.start()
    questions = search.answered(TraceAnswer(1, TraceVerdict.HELD, 0.0, tuple(range(2, 10_000))))
    assert len(questions) == 49
    assert len(search.report().unasked) == 9998 - 49
