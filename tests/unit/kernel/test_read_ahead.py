"""Credit that stands behind publications of a connection that is pushed back is given all the same."""

from tidings.kernel.forwarder import DirectSink, Flag, Forwarder
from tidings.model.codec import encode_frame, encode_message, encode_predicate
from tidings.model.destination import Destination, DestinationPattern
from tidings.model.message import Message
from tidings.model.selector import Selector
from tidings.node.clients.subscription_plan import predicate_of
from tidings.protocols.native.frames import FrameSplitter, FrameType, encode_credit


def topic(name: str) -> bytes:
    return encode_predicate(predicate_of(DestinationPattern.parse(name), Selector("")))


def publish(to: str = "t", body: bytes = bytes(400)) -> bytes:
    return encode_frame(FrameType.PUBLISH, bytes(4) + encode_message(Message(Destination.parse(to), {}, body)))


def opened(forwarder: Forwarder) -> int:
    connection = forwarder.open()
    forwarder.log_in(connection, 1 << 20, False)
    return connection


def subscribed(forwarder: Forwarder, connection: int, to: str = "t", number: int = 1) -> int:
    return forwarder.subscribe(DirectSink(connection, number, topic(to), credit=-1, backlog_bytes_max=1_000))


def feed(forwarder: Forwarder, connection: int, data: bytes) -> bool:
    """Whether it may send more."""
    return not forwarder.feed_bytes(connection, data, 0) & Flag.BLOCKED


def delivered(forwarder: Forwarder, connection: int) -> int:
    frames = FrameSplitter(1 << 20).feed(forwarder.take(connection, 1 << 20, 0))
    return sum(frame.type == FrameType.DELIVER for frame in frames)


def settle(forwarder: Forwarder) -> None:
    while numbers := forwarder.take_resumable():
        for number in numbers:
            forwarder.resume(number, 0)


def test_a_connection_that_its_own_subscription_pushes_back_goes_on_by_its_credit() -> None:
    forwarder = Forwarder()
    own = opened(forwarder)
    sink = subscribed(forwarder, own)
    assert feed(forwarder, own, publish() * 10), "it is read on: the credit may follow"
    assert forwarder.sink_counts(sink)[0] == 0
    assert feed(forwarder, own, publish() * 10 + encode_credit(1, 15))
    settle(forwarder)
    assert delivered(forwarder, own) == 15
    assert feed(forwarder, own, encode_credit(1, 5))
    settle(forwarder)
    assert delivered(forwarder, own) == 5, "no credit counts twice"
    feed(forwarder, own, publish() * 2)
    assert delivered(forwarder, own) == 0
    assert forwarder.sink_counts(sink)[1] == 0


def test_a_connection_that_another_subscription_pushes_back_is_read_when_its_own_runs_out() -> None:
    forwarder = Forwarder()
    own, other, slow = opened(forwarder), opened(forwarder), opened(forwarder)
    mine = subscribed(forwarder, own)
    full = subscribed(forwarder, slow, "slow")
    assert not feed(forwarder, own, publish("slow") * 10 + encode_credit(1, 7))
    assert feed(forwarder, other, publish()), "it waits for credit"
    assert forwarder.take_resumable() == [own], "which may have come"
    forwarder.resume(own, 0)
    assert delivered(forwarder, own) == 1
    assert feed(forwarder, other, publish() * 6)
    assert delivered(forwarder, own) == 6
    feed(forwarder, other, publish() * 5)
    assert forwarder.take_resumable() == [own]
    assert not forwarder.resume(own, 0) & Flag.BLOCKED
    assert not feed(forwarder, own, publish("slow") + encode_credit(1, 9)), "it has what it needs"
    assert forwarder.sink_counts(full)[0] == 0
    assert not forwarder.sink_counts(mine)[1] + forwarder.sink_counts(full)[1]


def test_nothing_is_taken_from_behind_a_subscription_that_begins_or_ends() -> None:
    for type in (FrameType.SUBSCRIBE, FrameType.UNSUBSCRIBE):
        forwarder = Forwarder()
        own = opened(forwarder)
        subscribed(forwarder, own)
        assert not feed(forwarder, own, publish() * 10 + encode_frame(type, b"x") + encode_credit(1, 7))
        assert delivered(forwarder, own) == 0


def test_other_requests_are_passed_over_and_keep_their_place() -> None:
    forwarder = Forwarder()
    own = opened(forwarder)
    subscribed(forwarder, own)
    assert feed(forwarder, own, publish() * 4 + encode_frame(FrameType.PING, b"") + encode_credit(1, 40))
    settle(forwarder)
    (event,) = forwarder.events()
    assert getattr(event, "type", None) == FrameType.PING
    assert delivered(forwarder, own) == 4


def test_what_is_read_ahead_is_bounded() -> None:
    forwarder = Forwarder(memory_bytes_max=160_000)
    own = opened(forwarder)
    subscribed(forwarder, own)
    pieces = 0
    while feed(forwarder, own, publish()):
        pieces += 1
    assert 10_000 < pieces * len(publish()) < 15_000


def test_a_stalled_subscription_is_not_waited_for() -> None:
    forwarder = Forwarder(stall_ms=100)
    own = opened(forwarder)
    sink = subscribed(forwarder, own)
    assert feed(forwarder, own, publish() * 10)
    forwarder.check_stalls(200)
    settle(forwarder)
    delivered_, dropped, _, stalled = forwarder.sink_counts(sink)
    assert (delivered_, stalled) == (0, True)
    assert dropped > 5
