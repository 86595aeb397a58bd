"""Address lists of other client libraries, as docs/howto/connect.md shows them: they go on at the next broker."""

import queue
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import paho.mqtt.client as paho
import pytest
import stomp
from paho.mqtt.enums import CallbackAPIVersion
from proton.handlers import MessagingHandler
from proton.reactor import Container

from tidings.client import sync
from tidings.localnet.ports import free_ports
from tidings.testing.local_broker import BrokerThread

SECONDS = 30


class Two:
    """Two brokers, of which the first can be ended."""

    def __init__(self) -> None:
        self._first, self._second = ExitStack(), ExitStack()
        self.first, self.second = self._first.enter_context(BrokerThread()), self._second.enter_context(BrokerThread())

    def lose(self) -> None:
        self._first.close()

    def close(self) -> None:
        self._first.close()
        self._second.close()


@pytest.fixture
def two() -> Iterator[Two]:
    made = Two()
    yield made
    made.close()


def publish(url: str, topic: str) -> None:
    with sync.connect(url) as client:
        client.publish(topic, {"n": 1}, body=b"after", wait=True)


class Again(stomp.ConnectionListener):  # type: ignore[misc]
    def __init__(self, connection: Any) -> None:
        self.connection, self.bodies, self.connected = connection, queue.Queue[str](), queue.Queue[int]()
        self.ended = False

    def on_connected(self, frame: Any) -> None:
        self.connection.subscribe("/topic/a", id="1", headers={"receipt": "s"})

    def on_receipt(self, frame: Any) -> None:
        self.connected.put(1)

    def on_message(self, frame: Any) -> None:
        self.bodies.put(frame.body)

    def on_disconnected(self) -> None:
        if not self.ended:
            self.connection.connect()


def test_stomp_py_goes_on_at_the_next_address(two: Two) -> None:
    places = [("127.0.0.1", two.first.stomp_port), ("127.0.0.1", two.second.stomp_port)]
    connection = stomp.Connection12(places, reconnect_attempts_max=20)
    again = Again(connection)
    connection.set_listener("", again)
    connection.connect()
    again.connected.get(timeout=SECONDS)
    two.lose()
    again.connected.get(timeout=SECONDS)
    publish(two.second.url, "a")
    assert again.bodies.get(timeout=SECONDS) == "after"
    again.ended = True
    connection.disconnect()


def test_proton_goes_round_its_addresses(two: Two) -> None:
    (nobody,) = free_ports(1)

    class Receiver(MessagingHandler):
        body = b""

        def on_start(self, event: Any) -> None:
            urls = [f"amqp://127.0.0.1:{port}" for port in (nobody, two.second.amqp_port)]
            event.container.create_receiver(event.container.connect(urls=urls), "topic://a")

        def on_link_opened(self, event: Any) -> None:
            publish(two.second.url, "a")

        def on_transport_error(self, event: Any) -> None: ...

        def on_message(self, event: Any) -> None:
            self.body = bytes(event.message.body)
            event.connection.close()

    receiver = Receiver()
    Container(receiver).run()
    assert receiver.body == b"after"


def test_paho_connects_to_the_next_host_when_it_is_told_to(two: Two) -> None:
    ports = [two.second.mqtt_port]
    bodies, granted = queue.Queue[bytes](), queue.Queue[int]()
    client = paho.Client(CallbackAPIVersion.VERSION2)
    client.reconnect_delay_set(min_delay=1, max_delay=1)

    def on_disconnect(*_: Any) -> None:
        if ports:
            client.connect_async("127.0.0.1", ports.pop())

    def on_connect(*_: Any) -> None:
        client.subscribe("a")

    client.on_connect = on_connect
    client.on_subscribe = lambda *_: granted.put(1)
    client.on_message = lambda _, __, message: bodies.put(bytes(message.payload))
    client.on_disconnect = on_disconnect
    client.connect_async("127.0.0.1", two.first.mqtt_port)
    client.loop_start()
    granted.get(timeout=SECONDS)
    two.lose()
    granted.get(timeout=SECONDS)
    publish(two.second.url, "a")
    assert bodies.get(timeout=SECONDS) == b"after"
    client.disconnect()
    client.loop_stop()
