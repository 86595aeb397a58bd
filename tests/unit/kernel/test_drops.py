"""Subscribers of direct sinks are told how many messages they do not get and why, and are not flooded with notices."""

from collections import Counter

import pytest

from tidings.kernel.events import MessagesDropped, SlowConsumer
from tidings.kernel.forwarder import DirectSink, Forwarder
from tidings.model.codec import encode_frame, encode_message, encode_predicate
from tidings.model.destination import Destination, DestinationPattern
from tidings.model.message import Message
from tidings.model.selector import Selector
from tidings.node.clients.subscription_plan import predicate_of
from tidings.protocols.native.frames import FrameType

EVERYTHING = encode_predicate(predicate_of(DestinationPattern.parse(">"), Selector("")))


def publish(count: int = 1, body: bytes = bytes(400)) -> bytes:
    message = encode_message(Message(Destination.parse("t"), {}, body))
    return encode_frame(FrameType.PUBLISH, bytes(4) + message) * count


def opened(forwarder: Forwarder) -> int:
    connection = forwarder.open()
    forwarder.log_in(connection, 1 << 20, False)
    return connection


def subscribed(forwarder: Forwarder, policy: str, number: int = 1, connection: int | None = None) -> int:
    """Returns the connection. It has no credit, and room for two messages."""
    reader = opened(forwarder) if connection is None else connection
    forwarder.subscribe(DirectSink(reader, number, EVERYTHING, credit=-1, policy=policy, backlog_bytes_max=1_000))
    return reader


def told(forwarder: Forwarder, now_ms: int = 0) -> list[MessagesDropped]:
    forwarder.check_stalls(now_ms)
    return [event for event in forwarder.events() if isinstance(event, MessagesDropped)]


@pytest.mark.parametrize(("policy", "reason"), [("drop-oldest", "oldest"), ("drop-newest", "newest")])
def test_what_a_policy_drops_is_told_once(policy: str, reason: str) -> None:
    forwarder = Forwarder()
    reader, writer = subscribed(forwarder, policy), opened(forwarder)
    forwarder.feed_bytes(writer, publish(50), 0)
    assert forwarder.events() == [], "not of each one"
    assert told(forwarder) == [MessagesDropped(reader, 1, 48, reason)]
    assert told(forwarder) == []
    forwarder.feed_bytes(writer, publish(3), 0)
    assert told(forwarder) == [MessagesDropped(reader, 1, 3, reason)]


def test_what_a_stalled_sink_loses_is_told() -> None:
    forwarder = Forwarder(stall_ms=100)
    reader, writer = subscribed(forwarder, "push-back"), opened(forwarder)
    forwarder.feed_bytes(writer, publish(20), 0)
    assert told(forwarder, 50) == []
    assert told(forwarder, 150) == [], "it loses nothing yet"
    assert forwarder.take_resumable() == [writer]
    forwarder.resume(writer, 150)
    (notice,) = told(forwarder, 150)
    assert (notice.connection, notice.subscription, notice.reason) == (reader, 1, "stalled")
    assert notice.dropped == forwarder.stats()["dropped_stalled"] > 10


def test_what_comes_from_far_and_does_not_fit_is_told() -> None:
    forwarder = Forwarder()
    reader = subscribed(forwarder, "push-back")
    message = encode_message(Message(Destination.parse("t"), {}, bytes(400)))
    for _ in range(10):
        forwarder.publish(message, 0, None)
    (notice,) = told(forwarder)
    assert notice == MessagesDropped(reader, 1, forwarder.stats()["dropped_far"], "far")


def test_what_goes_because_memory_is_short_is_told() -> None:
    forwarder = Forwarder(memory_bytes_max=4_000, stall_ms=100)
    readers = [subscribed(forwarder, "drop-newest") for _ in range(4)]
    writer = opened(forwarder)
    forwarder.feed_bytes(writer, publish(3), 0)
    lost: Counter[int] = Counter()
    for notice in told(forwarder, 200):
        assert notice.reason == "stalled"
        lost[notice.connection] += notice.dropped
    assert lost.keys() == set(readers)
    assert sum(lost.values()) == forwarder.stats()["dropped_stalled"] > 0


def test_the_end_of_the_connection_is_notice_enough() -> None:
    forwarder = Forwarder()
    reader, writer = subscribed(forwarder, "disconnect"), opened(forwarder)
    forwarder.feed_bytes(writer, publish(20), 0)
    forwarder.check_stalls(0)
    assert forwarder.events() == [SlowConsumer(reader, 1)]


def test_a_reader_that_reads_nothing_is_not_flooded_and_hears_everything_later() -> None:
    forwarder = Forwarder()
    reader, writer = subscribed(forwarder, "drop-newest"), opened(forwarder)
    forwarder.feed_bytes(writer, publish(10), 0)
    heard = [
        notice for _ in range(100) if forwarder.feed_bytes(writer, publish(), 0) >= 0 for notice in told(forwarder)
    ]
    assert len(heard) == 64
    forwarder.send(reader, b"notices")
    forwarder.take(reader, 100, 0)
    heard += told(forwarder)
    assert sum(notice.dropped for notice in heard) == forwarder.stats()["dropped_newest"]


def test_each_subscription_is_told_for_itself_and_none_that_has_gone() -> None:
    forwarder = Forwarder()
    reader, writer = subscribed(forwarder, "drop-newest"), opened(forwarder)
    subscribed(forwarder, "drop-oldest", 2, reader)
    gone = forwarder.subscribe(DirectSink(reader, 3, EVERYTHING, credit=-1, policy="drop-newest", backlog_bytes_max=0))
    forwarder.feed_bytes(writer, publish(10), 0)
    forwarder.unsubscribe(gone)
    assert [(notice.subscription, notice.reason) for notice in told(forwarder)] == [(1, "newest"), (2, "oldest")]


def test_filters_that_are_given_up_count_as_drops() -> None:
    forwarder = Forwarder()
    dear = Selector(f"a LIKE '%{'a_' * 2000}_b_b%'")
    predicate = encode_predicate(predicate_of(DestinationPattern.parse(">"), dear))
    reader, writer = opened(forwarder), opened(forwarder)
    forwarder.subscribe(DirectSink(reader, 1, predicate))
    mailbox = forwarder.mailbox(predicate)
    message = encode_message(Message(Destination.parse("t"), {"a": "a" * 1_000_000}, b""))
    forwarder.feed_bytes(writer, encode_frame(FrameType.PUBLISH, bytes(4) + message) * 3, 0)
    assert forwarder.overruns() > 0
    assert forwarder.take_overruns() == [(mailbox, 3)]
    assert told(forwarder) == [MessagesDropped(reader, 1, 3, "cost")]
    assert forwarder.stats()["dropped_cost"] == 3
    assert forwarder.take_overruns() == []
