"""Properties of MQTT 5.0 (section 2.2.2): identifiers, types, and the packets each may be in.

A packet's properties are a mapping from `Property` to a value: an int, str or bytes; of USER and of PUBLISH's
SUBSCRIPTION_ID, which may stand several times, a list.
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import Any, TypeAlias

from tidings.protocols.mqtt.reasons import MqttError, Reason
from tidings.protocols.mqtt.wire import PacketReader, Writer


class PacketType(IntEnum):
    CONNECT = 1
    CONNACK = 2
    PUBLISH = 3
    PUBACK = 4
    PUBREC = 5
    PUBREL = 6
    PUBCOMP = 7
    SUBSCRIBE = 8
    SUBACK = 9
    UNSUBSCRIBE = 10
    UNSUBACK = 11
    PINGREQ = 12
    PINGRESP = 13
    DISCONNECT = 14
    AUTH = 15


WILL = 0  # the properties of a will, in CONNECT


class Property(IntEnum):
    PAYLOAD_FORMAT = 0x01
    MESSAGE_EXPIRY = 0x02
    CONTENT_TYPE = 0x03
    RESPONSE_TOPIC = 0x08
    CORRELATION_DATA = 0x09
    SUBSCRIPTION_ID = 0x0B
    SESSION_EXPIRY = 0x11
    ASSIGNED_CLIENT_ID = 0x12
    SERVER_KEEP_ALIVE = 0x13
    AUTHENTICATION_METHOD = 0x15
    AUTHENTICATION_DATA = 0x16
    REQUEST_PROBLEM = 0x17
    WILL_DELAY = 0x18
    REQUEST_RESPONSE = 0x19
    RESPONSE_INFORMATION = 0x1A
    SERVER_REFERENCE = 0x1C
    REASON_STRING = 0x1F
    RECEIVE_MAXIMUM = 0x21
    TOPIC_ALIAS_MAXIMUM = 0x22
    TOPIC_ALIAS = 0x23
    MAXIMUM_QOS = 0x24
    RETAIN_AVAILABLE = 0x25
    USER = 0x26
    MAXIMUM_PACKET = 0x27
    WILDCARDS_AVAILABLE = 0x28
    SUBSCRIPTION_IDS_AVAILABLE = 0x29
    SHARED_AVAILABLE = 0x2A


Properties: TypeAlias = Mapping[Property, Any]
_T, _P = PacketType, Property
_ACKS = (_T.PUBACK, _T.PUBREC, _T.PUBREL, _T.PUBCOMP, _T.SUBACK, _T.UNSUBACK)
# Property: how it is read and written, and the packets that it may be in.
_TABLE: dict[Property, tuple[str, frozenset[int]]] = {
    _P.PAYLOAD_FORMAT: ("byte", frozenset((_T.PUBLISH, WILL))),
    _P.MESSAGE_EXPIRY: ("long", frozenset((_T.PUBLISH, WILL))),
    _P.CONTENT_TYPE: ("text", frozenset((_T.PUBLISH, WILL))),
    _P.RESPONSE_TOPIC: ("text", frozenset((_T.PUBLISH, WILL))),
    _P.CORRELATION_DATA: ("binary", frozenset((_T.PUBLISH, WILL))),
    _P.SUBSCRIPTION_ID: ("variable", frozenset((_T.PUBLISH, _T.SUBSCRIBE))),
    _P.SESSION_EXPIRY: ("long", frozenset((_T.CONNECT, _T.CONNACK, _T.DISCONNECT))),
    _P.ASSIGNED_CLIENT_ID: ("text", frozenset((_T.CONNACK,))),
    _P.SERVER_KEEP_ALIVE: ("short", frozenset((_T.CONNACK,))),
    _P.AUTHENTICATION_METHOD: ("text", frozenset((_T.CONNECT, _T.CONNACK, _T.AUTH))),
    _P.AUTHENTICATION_DATA: ("binary", frozenset((_T.CONNECT, _T.CONNACK, _T.AUTH))),
    _P.REQUEST_PROBLEM: ("byte", frozenset((_T.CONNECT,))),
    _P.WILL_DELAY: ("long", frozenset((WILL,))),
    _P.REQUEST_RESPONSE: ("byte", frozenset((_T.CONNECT,))),
    _P.RESPONSE_INFORMATION: ("text", frozenset((_T.CONNACK,))),
    _P.SERVER_REFERENCE: ("text", frozenset((_T.CONNACK, _T.DISCONNECT))),
    _P.REASON_STRING: ("text", frozenset((_T.CONNACK, *_ACKS, _T.DISCONNECT, _T.AUTH))),
    _P.RECEIVE_MAXIMUM: ("short", frozenset((_T.CONNECT, _T.CONNACK))),
    _P.TOPIC_ALIAS_MAXIMUM: ("short", frozenset((_T.CONNECT, _T.CONNACK))),
    _P.TOPIC_ALIAS: ("short", frozenset((_T.PUBLISH,))),
    _P.MAXIMUM_QOS: ("byte", frozenset((_T.CONNACK,))),
    _P.RETAIN_AVAILABLE: ("byte", frozenset((_T.CONNACK,))),
    _P.USER: ("pair", frozenset((*_T, WILL)) - {_T.PINGREQ, _T.PINGRESP}),
    _P.MAXIMUM_PACKET: ("long", frozenset((_T.CONNECT, _T.CONNACK))),
    _P.WILDCARDS_AVAILABLE: ("byte", frozenset((_T.CONNACK,))),
    _P.SUBSCRIPTION_IDS_AVAILABLE: ("byte", frozenset((_T.CONNACK,))),
    _P.SHARED_AVAILABLE: ("byte", frozenset((_T.CONNACK,))),
}
_FLAGS = {one for one, (kind, _) in _TABLE.items() if kind == "byte"}  # all properties of one byte are 0 or 1
_NOT_ZERO = {_P.RECEIVE_MAXIMUM, _P.MAXIMUM_PACKET, _P.SUBSCRIPTION_ID}  # a topic alias of 0 has a reason of its own


def decode_properties(reader: PacketReader, packet: int) -> dict[Property, Any]:
    """Read the properties of a packet of this type (`WILL`: of a will)."""
    length = reader.variable()
    if length > reader.left:
        reader.fail("property length exceeds the packet")
    end = reader.position + length
    outer, reader.end = reader.end, end
    found: dict[Property, Any] = {}
    while reader.position < end:
        try:
            name = Property(reader.variable())
        except ValueError:
            reader.fail("unknown property identifier")
        kind, packets = _TABLE[name]
        if packet not in packets:
            reader.fail(f"property {name.name} is not allowed in this packet")
        value = getattr(reader, kind)()
        _check(name, value)
        if name is Property.USER or (name is Property.SUBSCRIPTION_ID and packet == PacketType.PUBLISH):
            found.setdefault(name, []).append(value)
        elif name in found:
            raise MqttError(Reason.PROTOCOL_ERROR, f"property {name.name} occurs twice", position=reader.position)
        else:
            found[name] = value
    reader.end = outer
    return found


def _check(name: Property, value: Any) -> None:
    if (name in _FLAGS and value > 1) or (name in _NOT_ZERO and value == 0):
        raise MqttError(Reason.PROTOCOL_ERROR, f"property {name.name} must not be {value}")


def encode_properties(writer: Writer, properties: Properties) -> None:
    """Write the properties in the order of the mapping, with their length before them."""
    if not properties:
        writer.byte(0)
        return
    content = Writer()
    for name, value in properties.items():
        for each in value if isinstance(value, list) else (value,):
            content.byte(name)
            getattr(content, _TABLE[name][0])(each)
    writer.variable(len(content.data))
    writer.data += content.data
