"""Events of the forwarding plane: records of the kind, the order and the types that `tidings.kernel.events` states."""

import re
from pathlib import Path
from typing import get_args

from hardening.contracts.reference_forwarding import Forward, encode_forward

from tidings.kernel import events as ev
from tidings.kernel.forwarder import PERHAPS_SENT, DirectSink, Forwarder, NetworkShape
from tidings.model.codec import encode_frame, encode_message, encode_predicate
from tidings.model.destination import Destination
from tidings.model.message import Message
from tidings.model.message_id import MessageId
from tidings.model.predicate import Predicate
from tidings.protocols.native.frames import FrameType, encode_ack, encode_credit

HEADER = Path(__file__).parents[3] / "native" / "include" / "tidings" / "forwarding" / "events.hpp"
EVERYTHING = encode_predicate(Predicate.always())
FORWARD = 0x41


def message(body: bytes = b"body", *, destination: str = "t", persistent: bool = False) -> bytes:
    id = MessageId(1, 1, 5_000, 1)
    one = Message(Destination.parse(destination), {}, body, id=id, expiration_ms=9_000, persistent=persistent)
    return encode_message(one)


def publish(receipt: int, message: bytes, flags: int = 0, session: int = 0) -> bytes:
    return encode_frame(FrameType.PUBLISH, receipt.to_bytes(4, "little") + message, flags, session)


def opened(forwarder: Forwarder, *, checks: bool = False) -> int:
    connection = forwarder.open()
    forwarder.log_in(connection, 1 << 20, checks)
    return connection


def fed(forwarder: Forwarder, connection: int, data: bytes) -> ev.PlaneEvent:
    forwarder.feed_bytes(connection, data, 1_000)
    return only(forwarder)


def only(forwarder: Forwarder) -> ev.PlaneEvent:
    [event] = forwarder.events()
    return event


def same(event: ev.PlaneEvent, expected: ev.PlaneEvent) -> None:
    assert (type(event), event) == (type(expected), expected)
    assert [type(value) for value in event] == [type(value) for value in expected]


def test_the_kernel_has_the_same_fields_in_the_same_order() -> None:
    structs = dict(re.findall(r"^struct (\w+) \{\n(.*?)^\};", HEADER.read_text(), re.MULTILINE | re.DOTALL))
    native = {name: tuple(re.findall(r"(\w+);", body)) for name, body in structs.items()}
    assert native == {kind.__name__: kind._fields for kind in get_args(ev.PlaneEvent)}


def test_publications() -> None:
    forwarder = Forwarder()
    client, sink = opened(forwarder), forwarder.mailbox(EVERYTHING)
    same(fed(forwarder, client, publish(7, message())), ev.Published(client, 7, False, 9_000, message(), [sink]))
    again = fed(forwarder, client, publish(7, message(), PERHAPS_SENT))
    same(again, ev.Published(client, 7, True, 9_000, message(), [sink]))
    same(fed(forwarder, client, publish(7, message(), session=3)), ev.Transacted(client, 3, 7, message()))


def test_publications_that_other_brokers_want() -> None:
    forwarder = Forwarder()
    forwarder.join(NetworkShape(1, hands_up=True))
    client, sink = opened(forwarder), forwarder.mailbox(EVERYTHING)
    event = fed(forwarder, client, publish(7, message(), PERHAPS_SENT))
    same(event, ev.PublishedToScheme(client, 7, True, 9_000, message(), [sink]))


def test_messages_of_other_brokers() -> None:
    forwarder = Forwarder()
    forwarder.join(NetworkShape(1))
    link, sink = forwarder.open(), forwarder.mailbox(EVERYTHING)
    forwarder.link(link, 2)
    frame = encode_frame(FORWARD, encode_forward(Forward(3, message(), routers=(1,))))
    same(fed(forwarder, link, frame), ev.RemoteMessage(link, 9_000, message(), [sink]))
    kept = message(persistent=True)
    frame = encode_frame(FORWARD, encode_forward(Forward(3, kept, (1, 5), 7, 2**64 - 1, 2**63, (4, 2), repeated=True)))
    expected = ev.Relayed(link, 3, 2**64 - 1, [1, 5], [4, 2], 7, 2**63, True, 9_000, kept)
    same(fed(forwarder, link, frame), expected)


def test_frames() -> None:
    forwarder = Forwarder()
    client = opened(forwarder)
    same(fed(forwarder, client, encode_credit(4, 9)), ev.CreditGiven(client, 4, 9))
    same(fed(forwarder, client, encode_ack(4, [2**64 - 1, 6], 2)), ev.Acknowledged(client, 0, 4, 2, [2**64 - 1, 6]))
    same(fed(forwarder, client, encode_frame(0x77, b"x", 5, 6)), ev.ControlFrame(client, 0x77, 5, 6, b"x"))
    forwarder.handled(client, 1_000)
    event = fed(forwarder, client, encode_frame(FrameType.PUBLISH, b"ab"))
    assert isinstance(event, ev.FrameError)
    assert (event.connection, event.code, event.receipt) == (client, "E_CODEC_TRUNCATED", 0)
    asking = opened(forwarder, checks=True)
    queued = message(destination="queue:q")
    same(fed(forwarder, asking, publish(7, queued)), ev.PublishCheck(asking, 0, 7, True, "q"))


def test_a_slow_consumer() -> None:
    forwarder = Forwarder()
    client, reader = opened(forwarder), opened(forwarder)
    forwarder.subscribe(DirectSink(reader, 4, EVERYTHING, credit=-1, policy="disconnect", backlog_bytes_max=0))
    same(fed(forwarder, client, publish(0, message()) * 2), ev.SlowConsumer(reader, 4))


def test_dropped_messages() -> None:
    forwarder = Forwarder()
    client, reader = opened(forwarder), opened(forwarder)
    forwarder.subscribe(DirectSink(reader, 4, EVERYTHING, credit=-1, policy="drop-newest", backlog_bytes_max=0))
    forwarder.feed_bytes(client, publish(0, message()) * 4, 1_000)
    forwarder.check_stalls(1_000)
    same(only(forwarder), ev.MessagesDropped(reader, 4, 3, "newest"))


def test_room_and_clock() -> None:
    forwarder = Forwarder(output_bytes_max=100)
    client = opened(forwarder)
    forwarder.send(client, bytes(100))
    assert forwarder.room(client) == 0
    forwarder.take(client, 100, 1_000)
    same(only(forwarder), ev.OutputRoom(client))
    forwarder.watch_clock(client, 10)
    same(fed(forwarder, client, publish(0, message())), ev.ClockDrift(client, 5_000))
