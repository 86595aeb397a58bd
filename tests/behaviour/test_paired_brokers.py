"""Promises that the simulator once did not keep as the broker does: each is asked of both, by wire frames."""

from collections.abc import Callable, Iterator

import pytest
from hardening.differential.paired import PairedBroker
from hardening.differential.simulated import SimulatedBroker
from hardening.differential.sockets import SocketBroker

from tidings.kernel.codec import encode_message
from tidings.model.destination import Destination
from tidings.model.message import Message
from tidings.model.message_id import MessageId
from tidings.node.protocol_session import Hello
from tidings.node.requests import AckMode, Subscribe, Sync
from tidings.protocols.native.frames import FrameType, decode_delivery, encode_ack, encode_publish
from tidings.protocols.native.request_encoding import encode_hello, encode_request

MESSAGES = 6
LARGE_BYTES = 600_000  # six are more than a connection's output may hold
MAILBOX = "durable:consumer:orders"


@pytest.fixture(params=[SimulatedBroker, SocketBroker], ids=["simulator", "broker"])
def broker(request: pytest.FixtureRequest) -> Iterator[PairedBroker]:
    make: Callable[[], PairedBroker] = request.param
    made = make()
    yield made
    made.stop()


def log_in(broker: PairedBroker, client_id: str) -> int:
    connection = broker.open()
    broker.send(connection, encode_hello(Hello("", "", client_id, 0)))
    broker.settle()
    assert [frame.type for frame in broker.frames(connection)] == [FrameType.WELCOME]
    return connection


def subscribe(broker: PairedBroker) -> int:
    """Log in as the durable subscriber."""
    connection = log_in(broker, "consumer")
    request = Subscribe(1, 7, "orders", ack=AckMode.CLIENT, durable="orders")
    broker.send(connection, encode_request(request))
    broker.settle()
    return connection


def publish(broker: PairedBroker, body_bytes: int) -> None:
    connection = log_in(broker, "publisher")
    for number in range(1, MESSAGES + 1):
        body, id = bytes([number]) * body_bytes, MessageId(1, 1, number)
        message = Message(Destination.parse("orders"), {}, body, id=id, persistent=True)
        broker.send(connection, encode_publish(number, encode_message(message)))
    broker.settle()
    broker.disconnect(connection)


def delivered(broker: PairedBroker, connection: int) -> list[tuple[int, int, int]]:
    """Attempt, tag, and the last byte of the message."""
    found = [decode_delivery(one.payload) for one in broker.frames(connection) if one.type == FrameType.DELIVER]
    return [(attempt, tag, message[-1]) for _, attempt, tag, message in found]


def test_one_ack_frame_acknowledges_all_its_tags(broker: PairedBroker) -> None:
    consumer = subscribe(broker)
    publish(broker, body_bytes=10)
    got = delivered(broker, consumer)
    assert [(attempt, last) for attempt, _, last in got] == [(1, number) for number in range(1, MESSAGES + 1)]
    assert broker.view.mailboxes[MAILBOX].unacknowledged == MESSAGES
    broker.send(consumer, encode_ack(7, [tag for _, tag, _ in got]) + encode_request(Sync(2)))
    broker.settle()
    assert broker.view.mailboxes[MAILBOX].unacknowledged == 0
    broker.disconnect(consumer)
    assert delivered(broker, subscribe(broker)) == [], "nothing comes again"


def test_a_returning_consumer_gets_a_large_backlog_without_a_tick(broker: PairedBroker) -> None:
    broker.disconnect(subscribe(broker))
    publish(broker, body_bytes=LARGE_BYTES)
    got = delivered(broker, subscribe(broker))
    assert [last for _, _, last in got] == list(range(1, MESSAGES + 1))
