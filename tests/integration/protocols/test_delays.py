"""Delayed messages and message groups over real sockets, by each protocol and through a restart."""

import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import proton
import pytest
from proton.utils import BlockingConnection, SendException

from tidings.client import sync
from tidings.testing.broker_process import BrokerProcess
from tidings.testing.local_broker import BrokerThread

SECONDS = 30
DELAY_MS = 1_500
Send = Callable[[BrokerThread, str], None]


def stomp(broker: BrokerThread, destination: str, headers: str) -> str:
    """What the broker answers to a SEND."""
    with socket.create_connection(("127.0.0.1", broker.stomp_port), SECONDS) as stream:
        stream.sendall(b"CONNECT\naccept-version:1.2\nhost:x\n\n\0")
        stream.sendall(f"SEND\ndestination:{destination}\n{headers}receipt:r\n\nlater\0".encode())
        data = b""
        while b"receipt-id:r" not in data:
            part = stream.recv(4096)
            assert part, data
            data += part
        return data.decode()


def by_stomp(broker: BrokerThread, destination: str) -> None:
    assert "RECEIPT" in stomp(broker, destination, f"AMQ_SCHEDULED_DELAY:{DELAY_MS}\n")


def by_amqp(annotations: Callable[[], dict[Any, Any]]) -> Send:
    def send(broker: BrokerThread, destination: str) -> None:
        connection: Any = BlockingConnection(broker.amqp, timeout=SECONDS)
        connection.create_sender(destination).send(
            proton.Message(body=b"later", inferred=True, annotations=annotations())
        )
        connection.close()

    return send


def by_client(broker: BrokerThread, destination: str) -> None:
    with sync.connect(broker.url) as client:
        client.publish(destination, body=b"later", deliver_in=DELAY_MS / 1000)


WAYS = {
    "client": by_client,
    "stomp": by_stomp,
    "amqp-delay": by_amqp(lambda: {"x-opt-delivery-delay": DELAY_MS}),
    "amqp-time": by_amqp(lambda: {"x-opt-delivery-time": int(time.time() * 1000) + DELAY_MS}),
}


@pytest.mark.parametrize("destination", ["queue:", "topic:"])
@pytest.mark.parametrize("way", WAYS)
def test_a_delayed_message_is_not_early(broker: BrokerThread, way: str, destination: str) -> None:
    name = f"{destination}{uuid4().hex}"
    with sync.connect(broker.url) as client:
        subscription = client.subscribe(name)
        start = time.time()
        WAYS[way](broker, name)
        got = subscription.receive(SECONDS)
        assert got is not None
        assert got.body == b"later"
        assert time.time() - start >= DELAY_MS / 1000
        assert "AMQ_SCHEDULED_DELAY" not in got.properties


@pytest.mark.parametrize("header", ["AMQ_SCHEDULED_CRON:* * * * *", "AMQ_SCHEDULED_REPEAT:3", "AMQ_SCHEDULED_DELAY:x"])
def test_schedules_that_are_not_kept_are_refused_by_stomp(broker: BrokerThread, header: str) -> None:
    assert "E_STOMP_HEADER" in stomp(broker, "/queue/q", f"{header}\n")


@pytest.mark.parametrize("value", [-1, "soon", True, 1 << 60])
def test_delays_that_are_none_are_refused_by_amqp(broker: BrokerThread, value: object) -> None:
    with pytest.raises(SendException):
        by_amqp(lambda: {"x-opt-delivery-delay": value})(broker, "queue:q")


def test_a_delayed_message_survives_kill_9(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as broker:
        with sync.connect(broker.url) as client:
            client.publish("queue:q", body=b"later", deliver_in=2.0)
            client.publish("queue:q", body=b"now", persistent=True)
        broker.signal(signal.SIGKILL)
        broker.process.wait(SECONDS)
        with BrokerProcess(tmp_path) as again, sync.connect(again.url) as client:
            subscription = client.subscribe("queue:q")
            bodies = [one.body for one in (subscription.receive(SECONDS), subscription.receive(SECONDS)) if one]
            assert bodies == [b"now", b"later"]


def test_a_group_crosses_protocols_to_one_consumer(broker: BrokerThread) -> None:
    queue = f"queue:{uuid4().hex}"
    amqp: Any = BlockingConnection(broker.amqp, timeout=SECONDS)
    with sync.connect(broker.url) as one, sync.connect(broker.url) as other:
        consumers = [one.subscribe(queue), other.subscribe(queue)]
        sender = amqp.create_sender(queue)
        for _ in range(4):
            one.publish(queue, {"JMSXGroupID": "g"}, b"client", wait=True)
            stomp(broker, queue, "JMSXGroupID:g\n")
            sender.send(proton.Message(body=b"amqp", inferred=True, group_id="g"))
        holder = next(found for found in consumers if (first := found.receive(2)) is not None)
        rest = [holder.receive(SECONDS) for _ in range(11)]
        assert [got.body for got in rest if got] == [b"later", b"amqp", *[b"client", b"later", b"amqp"] * 3]
        assert first is not None
        assert first.body == b"client"
    amqp.close()
