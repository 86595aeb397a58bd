"""Encodes control packets.

>>> encode(PublishAnswer(PacketType.PUBACK, 7), V4).hex()
'40020007'
"""

from typing import assert_never

from tidings.protocols.mqtt.packets import V4 as V4
from tidings.protocols.mqtt.packets import (
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
    UnsubscribePacket,
)
from tidings.protocols.mqtt.properties import PacketType, encode_properties
from tidings.protocols.mqtt.wire import Writer, variable


def encode(packet: Packet, version: int) -> bytes:
    """The packet's bytes in this version of the protocol."""
    writer = Writer()
    match packet:
        case PublishPacket():
            return _publish(packet, version)
        case PublishAnswer():
            flags = 2 if packet.type is PacketType.PUBREL else 0
            writer.short(packet.packet_id)
            _reason(writer, packet, version)
            return _packet(packet.type, writer, flags)
        case Connect():
            _connect(writer, packet)
            return _packet(PacketType.CONNECT, writer)
        case Connack():
            writer.byte(packet.session_present)
            writer.byte(packet.code)
            if version == V5:
                encode_properties(writer, packet.properties)
            return _packet(PacketType.CONNACK, writer)
        case SubscribePacket() | UnsubscribePacket():
            return _topics(packet, version)
        case SubscriptionAnswer():
            writer.short(packet.packet_id)
            if version == V5:
                encode_properties(writer, packet.properties)
            if version == V5 or packet.type is PacketType.SUBACK:
                writer.data += bytes(packet.reasons)
            return _packet(packet.type, writer)
        case PingRequest():
            return b"\xc0\0"
        case PingResponse():
            return b"\xd0\0"
        case Disconnect():
            _reason(writer, packet, version)
            return _packet(PacketType.DISCONNECT, writer)
        case Auth():
            _reason(writer, packet, V5)
            return _packet(PacketType.AUTH, writer)
        case _:
            assert_never(packet)


def _packet(type: PacketType, writer: Writer, flags: int = 0) -> bytes:
    return bytes((type << 4 | flags,)) + variable(len(writer.data)) + bytes(writer.data)


def _publish(packet: PublishPacket, version: int) -> bytes:
    writer = Writer()
    writer.text(packet.topic)
    if packet.qos:
        writer.short(packet.packet_id)
    if version == V5:
        encode_properties(writer, packet.properties)
    first = PacketType.PUBLISH << 4 | packet.dup << 3 | packet.qos << 1 | packet.retain
    return b"".join(
        (bytes((first,)), variable(len(writer.data) + len(packet.payload)), bytes(writer.data), packet.payload)
    )


def _reason(writer: Writer, packet: PublishAnswer | Disconnect | Auth, version: int) -> None:
    """Left out where that says the same: success and no properties."""
    if version != V5 or not (packet.reason or packet.properties):
        return
    writer.byte(packet.reason)
    if packet.properties:
        encode_properties(writer, packet.properties)


def _connect(writer: Writer, packet: Connect) -> None:
    will = packet.will
    writer.text("MQTT")
    writer.byte(packet.version)
    flags = packet.clean << 1
    if will is not None:
        flags |= 4 | will.qos << 3 | will.retain << 5
    flags |= (packet.password is not None) << 6 | (packet.user is not None) << 7
    writer.byte(flags)
    writer.short(packet.keep_alive)
    if packet.version == V5:
        encode_properties(writer, packet.properties)
    writer.text(packet.client_id)
    if will is not None:
        if packet.version == V5:
            encode_properties(writer, will.properties)
        writer.text(will.topic)
        writer.binary(will.payload)
    if packet.user is not None:
        writer.text(packet.user)
    if packet.password is not None:
        writer.binary(packet.password)


def _topics(packet: SubscribePacket | UnsubscribePacket, version: int) -> bytes:
    writer = Writer()
    writer.short(packet.packet_id)
    if version == V5:
        encode_properties(writer, packet.properties)
    if isinstance(packet, UnsubscribePacket):
        for one in packet.filters:
            writer.text(one)
        return _packet(PacketType.UNSUBSCRIBE, writer, 2)
    for topic in packet.topics:
        writer.text(topic.filter)
        options = topic.qos
        if version == V5:
            options |= topic.no_local << 2 | topic.retain_as_published << 3 | topic.retain_handling << 4
        writer.byte(options)
    return _packet(PacketType.SUBSCRIBE, writer, 2)
