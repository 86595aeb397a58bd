"""The input of one connection has a share of a turn: what is beyond it waits, in order, while others are parsed."""

from tidings.kernel.events import Published
from tidings.kernel.forwarder import Flag, Forwarder
from tidings.model.codec import encode_frame, encode_message, encode_predicate
from tidings.model.destination import Destination, DestinationPattern
from tidings.model.message import Message
from tidings.model.selector import Selector
from tidings.node.clients.subscription_plan import predicate_of
from tidings.protocols.native.frames import FrameType

SHARE = 1024  # events
ENDLESS_MS = 3_600_000  # the clock plays no part


def publish(number: int) -> bytes:
    message = encode_message(Message(Destination.parse("t"), {}, b"%d" % number))
    return encode_frame(FrameType.PUBLISH, number.to_bytes(4, "little") + message)


def opened(forwarder: Forwarder) -> int:
    connection = forwarder.open()
    forwarder.log_in(connection, 1 << 20, False)
    return connection


def made(share_ms: int = ENDLESS_MS) -> Forwarder:
    forwarder = Forwarder()
    forwarder.set_share(share_ms)
    forwarder.mailbox(encode_predicate(predicate_of(DestinationPattern.parse("t"), Selector(""))))
    return forwarder


def receipts(forwarder: Forwarder) -> list[int]:
    return [event.receipt for event in forwarder.events() if isinstance(event, Published)]


def test_more_events_than_a_share_wait_for_later_turns_in_order() -> None:
    forwarder = made()
    busy, other = opened(forwarder), opened(forwarder)
    count = 2 * SHARE + 10
    flags = forwarder.feed_bytes(busy, b"".join(publish(n) for n in range(1, count + 1)), 0)
    assert flags & Flag.BLOCKED
    assert forwarder.has_tired()
    assert receipts(forwarder) == [*range(1, SHARE + 1)]
    assert not forwarder.feed_bytes(other, publish(7), 0) & Flag.BLOCKED, "others are parsed"
    assert receipts(forwarder) == [7]
    assert forwarder.resume(busy, 0) & Flag.BLOCKED, "not before it has rested"
    assert receipts(forwarder) == []
    assert forwarder.rest() == busy
    assert forwarder.resume(busy, 0) & Flag.BLOCKED
    assert receipts(forwarder) == [*range(SHARE + 1, 2 * SHARE + 1)]
    forwarder.feed_bytes(busy, publish(count + 1), 0)
    assert forwarder.rest() == busy
    assert not forwarder.resume(busy, 0) & Flag.BLOCKED
    assert receipts(forwarder) == [*range(2 * SHARE + 1, count + 2)]
    assert forwarder.rest() == -1


def test_they_rest_in_turn() -> None:
    forwarder = made()
    busy = [opened(forwarder) for _ in range(3)]
    for connection in busy:
        forwarder.feed_bytes(connection, b"".join(map(publish, range(1, 2 * SHARE + 2))), 0)
        assert len(forwarder.events()) == SHARE
    order = []
    while (number := forwarder.rest()) >= 0:
        order.append(number)
        forwarder.resume(number, 0)
        forwarder.events()
    assert order == [*busy, *busy]


def test_a_connection_that_is_closed_rests_no_more() -> None:
    forwarder = made()
    gone, stays = opened(forwarder), opened(forwarder)
    for connection in (gone, stays):
        forwarder.feed_bytes(connection, b"".join(map(publish, range(1, SHARE + 3))), 0)
    forwarder.close(gone)
    assert forwarder.rest() == stays
    assert forwarder.rest() == -1


def test_the_last_frame_does_not_tire() -> None:
    forwarder = made()
    one = opened(forwarder)
    assert not forwarder.feed_bytes(one, b"".join(map(publish, range(1, SHARE + 1))), 0) & Flag.BLOCKED
    assert not forwarder.has_tired()


def test_without_a_share_nothing_waits() -> None:
    forwarder = made(0)
    one = opened(forwarder)
    forwarder.feed_bytes(one, b"".join(map(publish, range(1, 3 * SHARE))), 0)
    assert len(forwarder.events()) == 3 * SHARE - 1
    assert not forwarder.has_tired()


def test_frames_of_stomp_have_a_share_too() -> None:
    forwarder = made()
    one = forwarder.open()
    forwarder.speak_stomp(one)
    forwarder.log_in(one, 1 << 20, False)
    frames = b"SEND\ndestination:/topic/t\n\nx\0" * (SHARE + 500)
    assert forwarder.feed_bytes(one, frames, 0) & Flag.BLOCKED
    first = len(forwarder.events())
    assert SHARE <= first < SHARE + 500
    assert forwarder.rest() == one
    assert not forwarder.resume(one, 0) & Flag.BLOCKED
    assert first + len(forwarder.events()) == SHARE + 500
