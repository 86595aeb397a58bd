"""Messages of every protocol are recorded: whoever published them, whoever got them."""

from typing import Any

import pytest
import stomp
from proton import Message
from proton.reactor import AtLeastOnce
from proton.utils import BlockingConnection

from tidings.client import sync
from tidings.testing.local_broker import BrokerThread
from tidings.tracking.recording.history import BloomSettings
from tidings.tracking.recording.recorder import TrackingSettings
from tidings.tracking.recording.strategies import AsyncStrategy, BloomStrategy

SECONDS = 60


def by_stomp(broker: BrokerThread) -> None:
    connection = stomp.Connection12([("127.0.0.1", broker.stomp_port)])
    connection.connect(wait=True)
    connection.send("/topic/a.b", "hello", headers={"receipt": "1"})
    connection.disconnect()


def by_amqp(broker: BrokerThread) -> None:
    connection: Any = BlockingConnection(broker.amqp, timeout=SECONDS)
    connection.create_sender("topic://a.b", options=AtLeastOnce()).send(Message("hello"))
    connection.close()


@pytest.mark.parametrize("publish", [by_stomp, by_amqp], ids=["stomp", "amqp"])
@pytest.mark.parametrize("strategy", [BloomStrategy(BloomSettings(50, 4096, 12)), AsyncStrategy()])
def test_a_message_of_another_protocol_is_traced(publish: Any, strategy: Any) -> None:
    with (
        BrokerThread(tracking=TrackingSettings(strategy, persist_ms=100)) as broker,
        sync.connect(broker.url, client_id="me") as client,
    ):
        plain, durable = client.subscribe("a.>"), client.subscribe("a.*", durable="audit")
        for _ in range(3):
            publish(broker)
        for _ in range(3):
            message = plain.receive(SECONDS)
            assert message is not None
            assert durable.receive(SECONDS) is not None
            path = client.trace(message.message_id)
            assert (path.confirmed, path.complete) == (True, True)
            assert [one.peer for _, one in path.subscribers] == ["durable:me:audit", "me"]


def test_subscribers_of_other_protocols_are_named() -> None:
    with BrokerThread(tracking=TrackingSettings(persist_ms=100)) as broker, sync.connect(broker.url) as client:
        web = stomp.Connection12([("127.0.0.1", broker.stomp_port)])
        web.connect(wait=True, headers={"client-id": "web"})
        web.subscribe("/topic/a.b", id="1", headers={"receipt": "1"})
        queue: Any = BlockingConnection(broker.amqp, timeout=SECONDS, container_id="warehouse")
        receiver = queue.create_receiver("topic://a.b", credit=1)
        for _ in range(SECONDS):  # a STOMP subscription is there some time after it was sent
            sent = client.publish("a.b", {"n": 1}, wait=True)
            assert receiver.receive(timeout=SECONDS) is not None
            receiver.accept()
            named = [one.peer for _, one in client.trace(sent.message_id).subscribers]
            if "web" in named:
                break
        assert "web" in named
        assert any("warehouse" in one for one in named), named
        web.disconnect()
        queue.close()
