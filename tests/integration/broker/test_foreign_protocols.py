"""A client that speaks another protocol than its port learns so, in the log and, where possible, in its protocol."""

import logging
import socket
from collections.abc import Iterator

import pytest

from tidings.client import sync
from tidings.protocols.native.frames import VERSION, FrameType, control
from tidings.testing.local_broker import BrokerThread

SECONDS = 30
FIRST = {
    "HTTP": b"GET /index.html HTTP/1.1\r\nHost: x\r\n\r\n",
    "TLS": bytes.fromhex("16030100c8010000c403035f") + bytes(193),
    "AMQP": b"AMQP\x03\x01\x00\x00",
    "MQTT": bytes.fromhex("101000044d5154540402003c000474657374"),
    "STOMP": b"CONNECT\naccept-version:1.2\nhost:x\n\n\0",
    "Tidings' own protocol": control(FrameType.HELLO, {"version": VERSION}),
}
ANSWERS = {
    "HTTP": b"HTTP/1.1 400 Bad Request\r\n",
    "TLS": b"\x15\x03\x01\x00\x02\x02\x46",
    "AMQP": b"",
    "MQTT": b"\x20\x02\x00\x01",
    "STOMP": b"ERROR\nmessage:E_PROTOCOL",
    "Tidings' own protocol": b"",
}
PORTS = ["native", "stomp", "amqp", "mqtt", "websocket", "mqtt-websocket"]
RIGHT = {"native": "Tidings' own protocol", "websocket": "HTTP", "mqtt-websocket": "HTTP"}


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerThread]:
    with BrokerThread() as running:
        yield running


def port_of(broker: BrokerThread, protocol: str) -> int:
    return {
        "native": broker.port,
        "stomp": broker.stomp_port,
        "amqp": broker.amqp_port,
        "mqtt": broker.mqtt_port,
        "websocket": broker.websocket_port,
        "mqtt-websocket": broker.mqtt_websocket_port,
    }[protocol]


@pytest.mark.parametrize("spoken", FIRST)
@pytest.mark.parametrize("protocol", PORTS)
def test_the_wrong_protocol_is_named(
    broker: BrokerThread, caplog: pytest.LogCaptureFixture, protocol: str, spoken: str
) -> None:
    if spoken == RIGHT.get(protocol, protocol.upper()):
        with sync.connect(broker.url) as client:  # others work on
            client.publish("a", wait=True)
        return
    with (
        caplog.at_level(logging.WARNING, "tidings.broker"),
        socket.create_connection(("127.0.0.1", port_of(broker, protocol)), SECONDS) as stream,
    ):
        stream.sendall(FIRST[spoken])
        heard = b""
        while part := stream.recv(4096):
            heard += part
    assert heard.startswith(ANSWERS[spoken])
    assert any(f"the client speaks {spoken}, this port" in record.getMessage() for record in caplog.records)
    if spoken == "Tidings' own protocol":
        assert b"E_PROTOCOL" in heard


@pytest.mark.parametrize(
    ("first", "begin"),
    [
        (b"AMQP\x00\x01\x00\x00", b"AMQP\x00\x01\x00\x00"),
        (bytes.fromhex("100d00044d51545405020000000000"), b"\x20"),
    ],
    ids=["AMQP 1.0 without SASL", "MQTT 5.0"],
)
def test_those_that_can_read_a_reason_get_one(broker: BrokerThread, first: bytes, begin: bytes) -> None:
    with socket.create_connection(("127.0.0.1", broker.stomp_port), SECONDS) as stream:
        stream.sendall(first)
        heard = b""
        while part := stream.recv(4096):
            heard += part
    assert heard.startswith(begin)
    assert b"this port STOMP: connect to the port for" in heard
