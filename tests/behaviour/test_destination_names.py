"""One destination has one meaning, however it is written, in every client, protocol, access rule and API."""

import socket
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from proton import Message
from proton.utils import BlockingConnection, LinkDetached

from tidings.broker.security.access import AccessRules, Rule
from tidings.client import sync
from tidings.errors import TidingsError
from tidings.model.destination import Destination, DestinationPattern
from tidings.testing.local_broker import BrokerThread

SECONDS = 30
FORMS = ["{}:{}", "{}://{}", "/{}/{}"]
FOREIGN = ["sensors/+", "topic:sensors.#", "topic://sensors/#", "/topic/+.a", "kafka://x", "/exchange/x", "Queue:x"]


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerThread]:
    with BrokerThread() as running:
        yield running


def stomp(broker: BrokerThread, *frames: str) -> str:
    """What the broker answers until the receipt of the last frame, or an ERROR."""
    with socket.create_connection(("127.0.0.1", broker.stomp_port), SECONDS) as stream:
        stream.sendall(b"CONNECT\naccept-version:1.2\nhost:x\n\n\0")
        stream.sendall("".join(f"{frame}\0" for frame in frames).encode())
        data = b""
        while b"receipt-id:last" not in data and b"ERROR" not in data:
            part = stream.recv(4096)
            assert part, data
            data += part
        return data.decode()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", ["topic", "queue"])
def test_each_form_names_the_same_in_each_protocol(broker: BrokerThread, kind: str, form: str) -> None:
    name = f"n{uuid4().hex}.a"
    text, canonical = form.format(kind, name), f"{kind}:{name}"
    amqp: Any = BlockingConnection(broker.amqp, timeout=SECONDS)
    with sync.connect(broker.url) as client:
        with client.subscribe(canonical) as subscription:
            client.publish(text, body=b"native", wait=True)
            amqp.create_sender(text).send(Message(body=b"amqp", inferred=True))
            sent = f"SEND\ndestination:{text}\nreply-to:{text}\nreceipt:last\n\nstomp"
            assert "receipt-id:last" in stomp(broker, sent)
            for body in (b"native", b"amqp", b"stomp"):
                found = subscription.receive(SECONDS)
                assert found is not None
                assert (found.body, str(found.message.destination)) == (body, canonical)
                assert found.message.reply_to is None or (body, str(found.message.reply_to)) == (b"stomp", canonical)
        receiver = amqp.create_receiver(text, credit=1)
        client.publish(canonical, body=b"back", wait=True)
        assert bytes(receiver.receive(timeout=SECONDS).body) == b"back"
        receiver.accept()
    amqp.close()


@pytest.mark.parametrize("text", FOREIGN)
def test_what_belongs_to_other_systems_is_refused(broker: BrokerThread, text: str) -> None:
    amqp: Any = BlockingConnection(broker.amqp, timeout=SECONDS)
    with sync.connect(broker.url) as client:
        for call in (lambda: client.publish(text, wait=True), lambda: client.subscribe(text)):
            with pytest.raises(TidingsError, match=r"E_DESTINATION_.* write "):
                call()
    for create in (amqp.create_receiver, amqp.create_sender):
        with pytest.raises(LinkDetached, match=r"amqp:invalid-field.* write "):
            create(text)
    amqp.close()
    for frame in (f"SEND\ndestination:{text}\n\n", f"SUBSCRIBE\nid:1\ndestination:{text}\n\n"):
        assert "ERROR" in stomp(broker, frame)


def test_access_rules_know_every_form() -> None:
    for form in FORMS:
        rule = Rule("*", DestinationPattern.parse(form.format("queue", "a")), frozenset({"publish"}))
        for asked in FORMS:
            assert AccessRules((rule,)).decide("publish", asked.format("queue", "a")) is rule
            assert AccessRules((rule,)).decide("publish", asked.format("topic", "a")) is None


def test_queues_of_the_python_client_have_every_form(broker: BrokerThread) -> None:
    name = uuid4().hex
    with sync.connect(broker.url) as client:
        client.publish(Destination(name, True), body=b"1", wait=True)
        for form in FORMS:
            assert [one.message.body for one in client.queue(form.format("queue", name)).browse()] == [b"1"]
