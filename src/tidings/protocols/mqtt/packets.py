"""Control packets of MQTT 3.1.1 and 5.0 as frozen records: a closed union."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from tidings.protocols.mqtt.properties import PacketType, Property
from tidings.protocols.mqtt.reasons import Reason

V4, V5 = 4, 5  # protocol levels: 3.1.1 and 5.0


@dataclass(frozen=True, slots=True)
class Will:
    topic: str
    payload: bytes
    qos: int = 0
    retain: bool = False
    properties: Mapping[Property, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Connect:
    version: int
    client_id: str
    clean: bool
    keep_alive: int = 0
    user: str | None = None
    password: bytes | None = None
    will: Will | None = None
    properties: Mapping[Property, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Connack:
    session_present: bool
    code: int  # a reason code; in 3.1.1 a return code
    properties: Mapping[Property, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PublishPacket:
    topic: str
    payload: bytes
    qos: int = 0
    retain: bool = False
    dup: bool = False
    packet_id: int = 0  # with QoS 1 and 2
    properties: Mapping[Property, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PublishAnswer:
    """PUBACK, PUBREC, PUBREL or PUBCOMP."""

    type: PacketType
    packet_id: int
    reason: int = Reason.SUCCESS
    properties: Mapping[Property, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TopicRequest:
    """One topic filter of SUBSCRIBE with its options."""

    filter: str
    qos: int = 0
    no_local: bool = False
    retain_as_published: bool = False
    retain_handling: int = 0


@dataclass(frozen=True, slots=True)
class SubscribePacket:
    packet_id: int
    topics: tuple[TopicRequest, ...]
    properties: Mapping[Property, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class UnsubscribePacket:
    packet_id: int
    filters: tuple[str, ...]
    properties: Mapping[Property, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SubscriptionAnswer:
    """SUBACK or UNSUBACK."""

    type: PacketType
    packet_id: int
    reasons: tuple[int, ...]
    properties: Mapping[Property, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PingRequest:
    pass


@dataclass(frozen=True, slots=True)
class PingResponse:
    pass


@dataclass(frozen=True, slots=True)
class Disconnect:
    reason: int = Reason.SUCCESS
    properties: Mapping[Property, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Auth:
    reason: int = Reason.SUCCESS
    properties: Mapping[Property, Any] = field(default_factory=dict)


Packet: TypeAlias = (
    Connect
    | Connack
    | PublishPacket
    | PublishAnswer
    | SubscribePacket
    | UnsubscribePacket
    | SubscriptionAnswer
    | PingRequest
    | PingResponse
    | Disconnect
    | Auth
)


def without_reason_string(packet: Packet) -> Packet:
    """The packet without the text for people, if it has one."""
    if not isinstance(packet, Connack | PublishAnswer | Disconnect) or Property.REASON_STRING not in packet.properties:
        return packet
    rest: dict[Property, Any] = {
        name: value for name, value in packet.properties.items() if name is not Property.REASON_STRING
    }
    return replace(packet, properties=rest)
