"""Decodes control packets, strictly: whatever the standard calls malformed or a protocol error is an `MqttError`.

Statements of the standards are named as in MQTT 5.0; those of 3.1.1 that differ have their version in front.
"""

from collections.abc import Callable

from tidings.protocols.mqtt.packets import (
    V4,
    V5,
    Auth,
    Connack,
    Connect,
    Disconnect,
    Packet,
    PingRequest,
    PingResponse,
    PublishAnswer,
    PublishPacket,
    SubscribePacket,
    SubscriptionAnswer,
    TopicRequest,
    UnsubscribePacket,
    Will,
)
from tidings.protocols.mqtt.properties import WILL, PacketType, Property, decode_properties
from tidings.protocols.mqtt.reasons import MqttError, Reason
from tidings.protocols.mqtt.topics import check_filter, check_name
from tidings.protocols.mqtt.wire import PacketReader

_FLAGS = {PacketType.PUBREL: 2, PacketType.SUBSCRIBE: 2, PacketType.UNSUBSCRIBE: 2}  # [MQTT-2.1.3-1]
_T = PacketType
# Reason codes that each packet may carry (MQTT 5.0, table 2-6).
_ANSWERS = {0, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99}
_REASONS: dict[PacketType, frozenset[int]] = {
    _T.PUBACK: frozenset(_ANSWERS),
    _T.PUBREC: frozenset(_ANSWERS),
    _T.PUBREL: frozenset({0, 0x92}),
    _T.PUBCOMP: frozenset({0, 0x92}),
    _T.DISCONNECT: frozenset({0, 4, *range(0x80, 0x84), 0x87, 0x89, 0x8B, *range(0x8D, 0xA3)}) - {0x91, 0x92},
    _T.AUTH: frozenset({0, 0x18, 0x19}),
}


def decode(first: int, content: bytes, version: int) -> Packet:
    """One packet: its first byte and what follows the remaining length."""
    try:
        type = PacketType(first >> 4)
    except ValueError:
        raise MqttError(Reason.MALFORMED, "packet type 0 is reserved") from None
    reader = PacketReader(content)
    if type is PacketType.PUBLISH:
        return _publish(reader, first & 15, version)
    if first & 15 != _FLAGS.get(type, 0):
        reader.fail(f"reserved flags of {type.name} are {first & 15:#x}")
    packet = _DECODERS[type](reader, type, version)
    reader.finish()
    return packet


def protocol_version(content: bytes) -> int:
    """The protocol level in the content of a CONNECT packet; an error if it is not one that is spoken here."""
    reader = PacketReader(content)
    name = reader.text()
    if name != "MQTT":  # [MQTT-3.1.2-1]
        raise MqttError(Reason.UNSUPPORTED_VERSION, f"protocol name {name[:16]!r} is not MQTT; use MQTT 3.1.1 or 5.0")
    level = reader.byte()
    if level not in (V4, V5):  # [MQTT-3.1.2-2]
        raise MqttError(Reason.UNSUPPORTED_VERSION, f"protocol level {level} is not supported; use MQTT 3.1.1 or 5.0")
    return level


def _connect(reader: PacketReader, _: PacketType, __: int) -> Connect:
    version = protocol_version(reader.data)
    reader.text()
    reader.byte()
    flags = reader.byte()
    if flags & 1:
        reader.fail("the reserved connect flag is set")  # [MQTT-3.1.2-3]
    has_will, will_qos, will_retain = bool(flags & 4), flags >> 3 & 3, bool(flags & 32)
    if will_qos == 3 or (not has_will and (will_qos or will_retain)):
        reader.fail("invalid will flags")  # [MQTT-3.1.2-11, -12, -13]
    has_password, has_user = bool(flags & 64), bool(flags & 128)
    if version == V4 and has_password and not has_user:
        reader.fail("a password without a user name")  # 3.1.1 [MQTT-3.1.2-22]
    keep_alive = reader.short()
    properties = decode_properties(reader, PacketType.CONNECT) if version == V5 else {}
    if Property.AUTHENTICATION_DATA in properties and Property.AUTHENTICATION_METHOD not in properties:
        raise MqttError(Reason.PROTOCOL_ERROR, "authentication data without an authentication method")
    client_id = reader.text()
    will = None
    if has_will:
        will_properties = decode_properties(reader, WILL) if version == V5 else {}
        topic = check_name(reader.text())
        will = Will(topic, reader.binary(), will_qos, will_retain, will_properties)
    user = reader.text() if has_user else None
    password = reader.binary() if has_password else None
    return Connect(version, client_id, bool(flags & 2), keep_alive, user, password, will, properties)


def _connack(reader: PacketReader, _: PacketType, version: int) -> Connack:
    flags = reader.byte()
    if flags > 1:
        reader.fail("reserved acknowledge flags are set")  # [MQTT-3.2.2-1]
    code = reader.byte()
    if flags and code:
        reader.fail("session present with an error")  # [MQTT-3.2.2-6]
    return Connack(bool(flags), code, decode_properties(reader, PacketType.CONNACK) if version == V5 else {})


def _publish(reader: PacketReader, flags: int, version: int) -> PublishPacket:
    qos = flags >> 1 & 3
    if qos == 3:
        reader.fail("QoS 3 does not exist")  # [MQTT-3.3.1-4]
    if flags & 8 and not qos:
        reader.fail("DUP is set with QoS 0")  # [MQTT-3.3.1-2]
    topic = reader.text()
    packet_id = _packet_id(reader) if qos else 0
    properties = decode_properties(reader, PacketType.PUBLISH) if version == V5 else {}
    if Property.TOPIC_ALIAS in properties:
        if not properties[Property.TOPIC_ALIAS]:
            raise MqttError(Reason.TOPIC_ALIAS, "topic alias 0 is not allowed")  # [MQTT-3.3.2-8]
        if topic:
            check_name(topic)
    elif not topic and version == V5:
        raise MqttError(Reason.PROTOCOL_ERROR, "PUBLISH has neither a topic name nor a topic alias")
    else:
        check_name(topic)
    if Property.RESPONSE_TOPIC in properties:
        check_name(properties[Property.RESPONSE_TOPIC])  # [MQTT-3.3.2-14]
    return PublishPacket(topic, reader.rest(), qos, bool(flags & 1), bool(flags & 8), packet_id, properties)


def _packet_id(reader: PacketReader) -> int:
    packet_id = reader.short()
    if not packet_id:
        raise MqttError(Reason.PROTOCOL_ERROR, "packet identifier 0 is not allowed")  # [MQTT-2.2.1-3]
    return packet_id


def _publish_answer(reader: PacketReader, type: PacketType, version: int) -> PublishAnswer:
    packet_id = _packet_id(reader)
    if version != V5 or not reader.left:
        return PublishAnswer(type, packet_id)
    reason = _reason(reader, type)
    return PublishAnswer(type, packet_id, reason, decode_properties(reader, type) if reader.left else {})


def _reason(reader: PacketReader, type: PacketType) -> int:
    reason = reader.byte()
    if reason not in _REASONS[type]:
        raise MqttError(Reason.PROTOCOL_ERROR, f"reason code {reason:#04x} is not allowed in {type.name}")
    return reason


def _subscribe(reader: PacketReader, type: PacketType, version: int) -> SubscribePacket:
    packet_id = _packet_id(reader)
    properties = decode_properties(reader, type) if version == V5 else {}
    topics = []
    while reader.left:
        filter = check_filter(reader.text())
        options = reader.byte()
        if options & 3 == 3 or options >> 6 or (version == V4 and options >> 2) or options >> 4 & 3 == 3:
            reader.fail("invalid subscription options")  # [MQTT-3.8.3-5], 3.1.1 [MQTT-3-8.3-4]
        no_local = bool(options & 4)
        if no_local and filter.startswith("$share/"):
            raise MqttError(Reason.PROTOCOL_ERROR, "No Local on a shared subscription")  # [MQTT-3.8.3-4]
        topics.append(TopicRequest(filter, options & 3, no_local, bool(options & 8), options >> 4 & 3))
    if not topics:
        raise MqttError(Reason.PROTOCOL_ERROR, "SUBSCRIBE without a topic filter")  # [MQTT-3.8.3-2]
    return SubscribePacket(packet_id, tuple(topics), properties)


def _unsubscribe(reader: PacketReader, type: PacketType, version: int) -> UnsubscribePacket:
    packet_id = _packet_id(reader)
    properties = decode_properties(reader, type) if version == V5 else {}
    filters = []
    while reader.left:
        filters.append(check_filter(reader.text()))
    if not filters:
        raise MqttError(Reason.PROTOCOL_ERROR, "UNSUBSCRIBE without a topic filter")  # [MQTT-3.10.3-2]
    return UnsubscribePacket(packet_id, tuple(filters), properties)


def _subscription_answer(reader: PacketReader, type: PacketType, version: int) -> SubscriptionAnswer:
    packet_id = _packet_id(reader)
    properties = decode_properties(reader, type) if version == V5 else {}
    reasons = () if version == V4 and type is PacketType.UNSUBACK else tuple(reader.rest())
    return SubscriptionAnswer(type, packet_id, reasons, properties)


def _disconnect(reader: PacketReader, type: PacketType, version: int) -> Disconnect:
    if version != V5 or not reader.left:
        return Disconnect()
    reason = _reason(reader, type)
    return Disconnect(reason, decode_properties(reader, type) if reader.left else {})


def _auth(reader: PacketReader, type: PacketType, version: int) -> Auth:
    if version != V5:
        reader.fail("packet type 15 is reserved in MQTT 3.1.1")
    if not reader.left:
        return Auth()
    reason = _reason(reader, type)
    return Auth(reason, decode_properties(reader, type) if reader.left else {})


_DECODERS: dict[PacketType, Callable[[PacketReader, PacketType, int], Packet]] = {
    _T.CONNECT: _connect,
    _T.CONNACK: _connack,
    _T.PUBACK: _publish_answer,
    _T.PUBREC: _publish_answer,
    _T.PUBREL: _publish_answer,
    _T.PUBCOMP: _publish_answer,
    _T.SUBSCRIBE: _subscribe,
    _T.SUBACK: _subscription_answer,
    _T.UNSUBSCRIBE: _unsubscribe,
    _T.UNSUBACK: _subscription_answer,
    _T.PINGREQ: lambda *_: PingRequest(),
    _T.PINGRESP: lambda *_: PingResponse(),
    _T.DISCONNECT: _disconnect,
    _T.AUTH: _auth,
}
