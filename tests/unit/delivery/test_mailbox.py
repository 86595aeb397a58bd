"""A mailbox keeps each message in exactly one place until it is done, and gives it out in order and in turn."""

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tidings.delivery.backlog import BacklogPosition
from tidings.delivery.mailbox import Consumer, Mailbox, MailboxDelivery, MailboxKind, Tries
from tidings.delivery.message_cache import MessageCache


def mailbox(deliveries_max: int = 3) -> tuple[Mailbox, MessageCache]:
    message_cache = MessageCache(1 << 20)
    return Mailbox(1, "queue:q", MailboxKind.QUEUE, message_cache, deliveries_max=deliveries_max), message_cache


def offer(
    box: Mailbox,
    message_cache: MessageCache,
    seq: int,
    message: bytes = b"m",
    *,
    priority: int = 4,
    expires_ms: int = 0,
) -> None:
    message_cache.add(seq, message, holders=1, stored=False, expires_ms=expires_ms)
    box.offer(BacklogPosition(seq, priority))


def seqs(deliveries: list[MailboxDelivery]) -> list[int]:
    return [one.consumer.unacknowledged[one.tag].seq for one in deliveries]


def test_consumers_are_served_in_turn_up_to_their_credit() -> None:
    box, message_cache = mailbox()
    first, second = Consumer(1, 1, credit=2), Consumer(2, 1, credit=1)
    box.attach(first)
    box.attach(second)
    for seq in range(1, 6):
        offer(box, message_cache, seq)
    given = box.dispatch(0)
    assert seqs(given) == [1, 2, 3]
    assert sorted(one.consumer.connection for one in given) == [1, 1, 2]
    first.credit = 5
    assert seqs(box.dispatch(0)) == [4, 5]


def test_past_an_empty_backlog_to_the_only_consumer_and_back_to_the_store() -> None:
    box, _ = mailbox()
    assert box.hand_on(BacklogPosition(1, 4), b"m") is None, "nobody is there"
    consumer = Consumer(1, 1, credit=1)
    box.attach(consumer)
    given = box.hand_on(BacklogPosition(1, 4), b"m")
    assert given is not None
    assert (seqs([given]), given.attempt, consumer.credit) == ([1], 1, 0)
    assert box.hand_on(BacklogPosition(2, 4), b"m") is None, "no credit"
    box.refuse(consumer, [given.tag])
    consumer.credit = 5
    assert box.hand_on(BacklogPosition(2, 4), b"m") is None, "another one waits"
    assert box.dispatch(0) == []
    assert box.wanted == [1], "memory never had it"


@pytest.mark.parametrize("setting", ["accepts", "avoids", "settles", "draining", "two"])
def test_whoever_is_not_simply_given_the_next_one_goes_by_the_backlog(setting: str) -> None:
    box, _ = mailbox()
    consumer = Consumer(1, 1, credit=5)
    box.attach(consumer)
    match setting:
        case "accepts":
            consumer.accepts = lambda message: True
        case "avoids":
            consumer.avoids.add(1)
        case "settles":
            consumer.settles = True
        case "draining":
            consumer.draining = 1
        case "two":
            box.attach(Consumer(2, 1, credit=5))
    assert box.hand_on(BacklogPosition(1, 4), b"m") is None


def test_higher_priority_first_then_in_order() -> None:
    box, message_cache = mailbox()
    for seq, priority in ((1, 4), (2, 9), (3, 4), (4, 0), (5, 9)):
        offer(box, message_cache, seq, priority=priority)
    box.attach(Consumer(1, 1, credit=10))
    assert seqs(box.dispatch(0)) == [2, 5, 1, 3, 4]


def test_what_is_refused_comes_again_marked_and_dies_after_the_limit() -> None:
    box, message_cache = mailbox(deliveries_max=3)
    consumer = Consumer(1, 1, credit=100)
    box.attach(consumer)
    offer(box, message_cache, 1)
    for attempt in (1, 2, 3):
        (given,) = box.dispatch(0)
        assert given.attempt == attempt
        dead = box.refuse(consumer, [given.tag])
        assert dead == ([BacklogPosition(1, 4)] if attempt == 3 else [])
    assert box.dispatch(0) == []


def test_what_a_lost_consumer_had_goes_to_another_in_its_old_order() -> None:
    box, message_cache = mailbox()
    lost, other = Consumer(1, 1, credit=2), Consumer(2, 1, credit=0)
    box.attach(lost)
    box.attach(other)
    for seq in (1, 2, 3):
        offer(box, message_cache, seq)
    assert seqs(box.dispatch(0)) == [1, 2]
    assert box.detach(lost) == []
    other.credit = 10
    given = box.dispatch(0)
    assert [one.attempt for one in given] == [2, 2, 1]
    assert seqs(given) == [1, 2, 3]


def test_of_what_lost_consumers_had_only_the_oldest_counts_as_tried() -> None:
    box, message_cache = mailbox(deliveries_max=3)
    for seq in (1, 2, 3):
        offer(box, message_cache, seq)
    dead = []
    for attempt in (1, 2, 3):
        consumer = Consumer(1, 1, credit=10)
        box.attach(consumer)
        assert [one.attempt for one in box.dispatch(0)] == [attempt] * 3
        dead += box.detach(consumer)
    assert dead == [BacklogPosition(1, 4)]
    assert [tries for seq, tries in box.take_tried() if seq == 3] == [Tries(0, spared) for spared in (1, 2, 3)]
    consumer = Consumer(1, 1, credit=10)
    box.attach(consumer)
    given = box.dispatch(0)
    assert [one.attempt for one in given] == [4, 4]
    assert box.refuse(consumer, [one.tag for one in given]) == [], "each was spared, at least for a time"
    assert seqs(box.dispatch(0)) == [2, 3]


@pytest.mark.parametrize("tries", [Tries(0, 1), Tries(1, 0), Tries(1_000_000, 4095)])
def test_tries_are_stored_in_32_bits(tries: Tries) -> None:
    assert 0 < tries.number < 1 << 32
    assert Tries.of(tries.number) == tries
    assert Tries.of(5) == Tries(5, 0), "what was stored before any was spared"
    assert Tries.of(Tries(1 << 30, 1 << 30).number).given > 1_000_000


def test_expired_messages_are_not_given_out() -> None:
    box, message_cache = mailbox()
    box.attach(Consumer(1, 1, credit=10))
    offer(box, message_cache, 1, expires_ms=100)
    offer(box, message_cache, 2)
    assert seqs(box.dispatch(100)) == [2]
    assert box.expired == [BacklogPosition(1, 4)]


def test_each_consumer_gets_only_what_its_selector_accepts_whatever_the_priorities() -> None:
    box, message_cache = mailbox()
    even = Consumer(1, 1, credit=100, accepts=lambda message: message[0] % 2 == 0)
    odd = Consumer(2, 1, credit=100, accepts=lambda message: message[0] % 2 == 1)
    box.attach(even)
    for seq in range(1, 9):
        offer(box, message_cache, seq, bytes([seq]), priority=seq % 3)
    assert sorted(seqs(box.dispatch(0))) == [2, 4, 6, 8]
    box.attach(odd)
    assert sorted(seqs(box.dispatch(0))) == [1, 3, 5, 7]
    assert len(box.backlog) == 0


def test_what_comes_later_than_its_number_says_is_not_passed_over() -> None:
    """A persistent message is offered once it is on disk; others have overtaken it by then."""
    box, message_cache = mailbox()
    picky, other = Consumer(1, 1, credit=9, accepts=lambda message: message == b"wanted"), Consumer(2, 1, credit=0)
    box.attach(picky)
    box.attach(other)
    offer(box, message_cache, 2, b"other")
    offer(box, message_cache, 5, b"wanted")
    assert seqs(box.dispatch(0)) == [5]
    for seq in (4, 1, 3):
        offer(box, message_cache, seq, b"wanted")
    assert [place.seq for place in box.backlog.scan()] == [1, 2, 3, 4]
    assert seqs(box.dispatch(0)) == [1, 3, 4]
    assert box.backlog.take() == BacklogPosition(2, 4)
    offer(box, message_cache, 6, b"other")
    box.dispatch(0)
    box.backlog.take()
    offer(box, message_cache, 0, b"wanted")
    assert seqs(box.dispatch(0)) == [0], "nothing else waits, but it had looked further"


def test_messages_that_only_the_store_has_are_asked_for_and_those_behind_wait() -> None:
    box, message_cache = mailbox()
    box.attach(Consumer(1, 1, credit=10))
    box.offer(BacklogPosition(1, 4))  # its bytes are not in the cache
    offer(box, message_cache, 2)
    assert box.dispatch(0) == []
    assert box.wanted == [1]
    message_cache.add(1, b"one", holders=1, stored=True)
    assert seqs(box.dispatch(0)) == [1, 2]


class MailboxMachine(RuleBasedStateMachine):
    """Random work: nothing is lost, nothing is with two consumers, nothing comes back after it is done."""

    def __init__(self) -> None:
        super().__init__()
        self.message_cache = MessageCache(1 << 20)
        self.box = Mailbox(1, "queue:q", MailboxKind.QUEUE, self.message_cache, deliveries_max=4)
        self.offered: set[int] = set()
        self.done: set[int] = set()
        self.dead: set[int] = set()

    @rule(priority=st.integers(0, 9))
    def offer(self, priority: int) -> None:
        seq = len(self.offered) + 1
        self.offered.add(seq)
        offer(self.box, self.message_cache, seq, bytes([seq % 256]), priority=priority)

    @rule(credit=st.integers(0, 3), picky=st.booleans())
    def attach(self, credit: int, picky: bool) -> None:
        accepts = (lambda message: message[0] % 2 == 0) if picky else None
        self.box.attach(Consumer(len(self.box.consumers), 1, credit, accepts=accepts))

    @rule()
    def dispatch(self) -> None:
        for delivery in self.box.dispatch(0):
            place = delivery.consumer.unacknowledged[delivery.tag]
            assert place.seq not in self.done | self.dead
            assert delivery.consumer.accepts is None or delivery.consumer.accepts(delivery.message)

    @precondition(lambda self: self.box.consumers)
    @rule(data=st.data(), what=st.sampled_from(["ack", "refuse", "detach", "credit"]))
    def consume(self, data: st.DataObject, what: str) -> None:
        consumer = data.draw(st.sampled_from(self.box.consumers))
        tags = list(consumer.unacknowledged)
        some = data.draw(st.lists(st.sampled_from(tags), unique=True)) if tags else []
        match what:
            case "ack":
                self.done.update(self.box.acknowledge(consumer, some))
            case "refuse":
                self._bury(self.box.refuse(consumer, some))
            case "detach":
                self._bury(self.box.detach(consumer))
            case _:
                consumer.credit += 1

    def _bury(self, places: list[BacklogPosition]) -> None:
        for place in places:
            self.dead.add(place.seq)
            self.box.finish(place.seq)

    @invariant()
    def each_message_is_in_one_place(self) -> None:
        waiting = [place.seq for place in self.box.backlog.scan()]
        given = [place.seq for consumer in self.box.consumers for place in consumer.unacknowledged.values()]
        everywhere = waiting + given + sorted(self.done) + sorted(self.dead)
        assert sorted(everywhere) == sorted(self.offered)
        assert len(self.message_cache) == len(waiting) + len(given)


TestMailbox = MailboxMachine.TestCase
