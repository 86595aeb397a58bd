"""Messages that cross from AMQP to other protocols and back, through a real broker."""

import socket
from typing import Any
from uuid import uuid4

import proton
from hardening.fuzz.amqp import fuzz_here, fuzz_sockets
from hardening.support.strategies_model import byte_strings, numbers, texts
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from proton.utils import BlockingConnection

from tidings.client import sync
from tidings.protocols.amqp.address import address_of
from tidings.testing.local_broker import BrokerThread, run

SECONDS = 30
values = st.one_of(numbers, texts, st.booleans(), byte_strings)
names = st.sampled_from(["price", "stock", "é", "a b"]) | st.text("xyz", min_size=1)
attributes = st.dictionaries(names, values, max_size=4)
replies = st.none() | st.sampled_from(["queue:r", "topic:a.b"])


def typed(properties: Any) -> dict[str, Any]:
    owned = {name: bytes(value) if isinstance(value, memoryview) else value for name, value in properties.items()}
    return {name: (type(value), value) for name, value in owned.items()}


@settings(
    max_examples=20, deadline=None, phases=[Phase.generate], suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    properties=attributes,
    body=st.binary(max_size=50),
    priority=st.integers(0, 9),
    persistent=st.booleans(),
    correlation=st.none() | texts,
    kind=st.none() | texts.filter(lambda text: "\0" not in text),  # Proton's client ends a subject there
    reply_to=replies,
)
def test_native_and_amqp_say_the_same(
    broker: BrokerThread,
    properties: dict[str, Any],
    body: bytes,
    priority: int,
    persistent: bool,
    correlation: str | None,
    kind: str | None,
    reply_to: str | None,
) -> None:
    topic = f"t.{uuid4().hex}"
    connection: Any = BlockingConnection(broker.amqp, timeout=SECONDS)
    with sync.connect(broker.url) as client:
        receiver = connection.create_receiver(f"topic://{topic}", credit=2)
        subscription = client.subscribe(topic)
        sender = connection.create_sender(f"topic://{topic}")
        receipt = client.publish(
            topic,
            properties,
            body,
            priority=priority,
            persistent=persistent,
            correlation_id=correlation,
            reply_to=reply_to,
            type=kind,
            wait=True,
        )
        first = receiver.receive(timeout=SECONDS)
        receiver.accept()
        assert typed(first.properties or {}) == typed(properties)
        assert bytes(first.body) == body
        assert (first.priority, first.durable) == (priority, persistent)
        assert (first.correlation_id, first.subject, first.id) == (correlation, kind, receipt.message_id.jms)
        native = subscription.receive(SECONDS)
        assert native is not None
        assert first.reply_to == (native.message.reply_to and address_of(native.message.reply_to))
        sent = proton.Message(
            body=body, inferred=True, properties=properties, priority=priority, durable=persistent, subject=kind
        )
        sent.correlation_id, sent.reply_to = correlation, first.reply_to
        sender.send(sent)
        second = subscription.receive(SECONDS)
        assert second is not None
        assert typed(second.properties) == typed(properties)
        assert second.body == body
        ours, theirs = second.message, native.message
        assert (ours.priority, ours.persistent, ours.type) == (theirs.priority, theirs.persistent, theirs.type)
        assert (ours.correlation_id, ours.reply_to) == (theirs.correlation_id, theirs.reply_to)
        again = receiver.receive(timeout=SECONDS)
        assert typed(again.properties or {}) == typed(properties)
        assert (bytes(again.body), again.correlation_id, again.reply_to) == (body, correlation, first.reply_to)
    connection.close()


def test_stomp_and_amqp_say_the_same(broker: BrokerThread) -> None:
    topic = f"t.{uuid4().hex}"
    connection: Any = BlockingConnection(broker.amqp, timeout=SECONDS)
    receiver = connection.create_receiver(f"topic://{topic}", credit=2)
    sender = connection.create_sender(f"topic://{topic}")
    with socket.create_connection(("127.0.0.1", broker.stomp_port), SECONDS) as stream:

        def heard(until: bytes) -> bytes:
            data = b""
            while until not in data:
                part = stream.recv(4096)
                assert part, data
                data += part
            return data

        stream.sendall(b"CONNECT\naccept-version:1.2\nhost:x\n\n\0")
        heard(b"CONNECTED")
        stream.sendall(b"SUBSCRIBE\nid:1\nreceipt:r\ndestination:/topic/%s\n\n\0" % topic.encode())
        heard(b"receipt-id:r")
        stream.sendall(b"SEND\ndestination:/topic/%s\nprice:50\ncorrelation-id:c\n\nhello\0" % topic.encode())
        message = receiver.receive(timeout=SECONDS)
        receiver.accept()
        assert (message.properties, bytes(message.body), message.correlation_id) == ({"price": "50"}, b"hello", "c")
        heard(b"hello\0")
        sent = proton.Message(body="bonjour", correlation_id="d", priority=7, properties={"price": 20, "open": True})
        sent.content_type = "text/plain"
        sender.send(sent)
        frame = heard(b"bonjour\0")
        for line in (b"price:20", b"open:true", b"correlation-id:d", b"priority:7", b"content-type:text/plain"):
            assert b"\n" + line + b"\n" in frame
    connection.close()


def test_mutated_streams_cost_nothing_but_their_own_connection() -> None:
    assert run(fuzz_here(300, seed=1)) > 0


def test_mutated_streams_over_sockets_disturb_nobody() -> None:
    assert run(fuzz_sockets(40, seed=2)) == 40
