"""Recognises clients that speak another protocol than their port, by their first bytes, and answers in theirs.

>>> recognise(b"GET / HTTP/1.1"), recognise(b"AMQP" + bytes((0, 1, 0, 0))), recognise(b"SEND")
('HTTP', 'AMQP', '')
>>> foreign("stomp", b"GET / HTTP/1.1"), foreign("websocket", b"GET / HTTP/1.1")
('HTTP', '')
"""

import re

from tidings.protocols.amqp.conditions import ERROR
from tidings.protocols.amqp.engine.connection import AMQP_HEADER
from tidings.protocols.amqp.wire.frames import frame
from tidings.protocols.amqp.wire.performatives import AmqpClose, AmqpOpen, write_performative
from tidings.protocols.amqp.wire.types import Described, symbol, ulong
from tidings.protocols.mqtt.encode import encode as encode_packet
from tidings.protocols.mqtt.packets import V5, Connack
from tidings.protocols.mqtt.properties import Property
from tidings.protocols.mqtt.reasons import Reason
from tidings.protocols.native.frames import FrameType, control
from tidings.protocols.stomp.frames import StompVersion, encode

HEAD_BYTES = 64
TLS, HTTP, AMQP, MQTT, STOMP, NATIVE = "TLS", "HTTP", "AMQP", "MQTT", "STOMP", "Tidings' own protocol"
# What a listener's protocol looks like on the wire.
_EXPECTED = {
    "native": NATIVE,
    "stomp": STOMP,
    "amqp": AMQP,
    "mqtt": MQTT,
    "http": HTTP,
    "websocket": HTTP,
    "mqtt-websocket": HTTP,
}
_SIGNS = {
    TLS: re.compile(rb"\x16\x03[\x00-\x04]"),
    HTTP: re.compile(rb"(GET|POST|PUT|HEAD|DELETE|OPTIONS|PATCH|TRACE) |CONNECT [^\n]+ HTTP/|PRI \* HTTP/"),
    AMQP: re.compile(rb"AMQP"),
    MQTT: re.compile(rb"\x10[\x00-\xff]{1,4}\x00(\x04MQTT|\x06MQIsdp)", re.DOTALL),
    STOMP: re.compile(rb"(CONNECT|STOMP)\r?\n"),
    NATIVE: re.compile(rb"[\x00-\xff]{2}\x00\x00" + bytes((FrameType.HELLO,)) + rb"\x00\x00\x00", re.DOTALL),
}


def recognise(head: bytes) -> str:
    """The protocol that begins like this; empty: none that is known here."""
    return next((name for name, sign in _SIGNS.items() if sign.match(head)), "")


def foreign(protocol: str, head: bytes) -> str:
    """The protocol that a client speaks if it is not this listener's; empty: it is, or is unknown."""
    found = recognise(head)
    return "" if found == _EXPECTED.get(protocol, found) else found


def explanation(protocol: str, spoken: str) -> str:
    return f"the client speaks {spoken}, this port {_EXPECTED[protocol]}: connect to the port for {spoken}"


def answer(spoken: str, text: str, first: bytes) -> bytes:
    """Bytes of the client's own protocol that refuse it, as far as that can say so."""
    if spoken == HTTP:
        body = f"{text}\n".encode()
        head = f"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\n"
        return f"{head}Connection: close\r\n\r\n".encode() + body
    if spoken == STOMP:
        return encode("ERROR", {"message": f"E_PROTOCOL: {text}", "code": "E_PROTOCOL"}, StompVersion.V12)
    if spoken == NATIVE:
        return control(FrameType.ERROR, {"code": "E_PROTOCOL", "reason": text})
    if spoken == TLS:
        return b"\x15\x03\x01\x00\x02\x02\x46"  # a fatal alert: protocol version
    if spoken == MQTT and b"\0\4MQTT\5" in first:
        return encode_packet(Connack(False, Reason.UNSUPPORTED_VERSION, {Property.REASON_STRING: text}), V5)
    if spoken == MQTT:
        return b"\x20\x02\x00\x01"  # CONNACK of MQTT 3.1.1: unacceptable protocol version
    if first.startswith(AMQP_HEADER):
        error = Described(ulong(ERROR), [symbol("amqp:connection:forced"), text])
        return AMQP_HEADER + b"".join(frame(write_performative(one)) for one in (AmqpOpen("tidings"), AmqpClose(error)))
    return b""  # before the login, and in earlier versions, AMQP has no words for it
