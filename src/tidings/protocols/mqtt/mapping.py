"""Translates PUBLISH packets to messages and back (docs/protocols.md, "How fields map").

A user property becomes a property of untyped text, as a header of STOMP does. What our messages cannot hold (a name
twice, an empty or reserved name) is kept in `JMSXMqttUser`, with all others and in order, for receivers by MQTT.
"""

import base64
import re
from collections.abc import Iterable, Mapping
from typing import Any

from tidings.errors import UsageError
from tidings.model.destination import Destination
from tidings.model.message import PRIORITY_DEFAULT, PRIORITY_MAX, Message, check_property_name
from tidings.model.message_id import MessageId
from tidings.model.values import Untyped, Value
from tidings.protocols.mqtt.packets import PublishPacket, Will
from tidings.protocols.mqtt.properties import Property
from tidings.protocols.mqtt.reasons import MqttError, Reason
from tidings.protocols.mqtt.topics import to_destination, to_topic
from tidings.protocols.mqtt.wire import PacketReader, Writer

QOS, FORMAT, USER, CONTENT_TYPE = "JMSXMqttQoS", "JMSXMqttFormat", "JMSXMqttUser", "content-type"
RETAIN = "JMSXRetain"
_OWN = {QOS, FORMAT, USER, CONTENT_TYPE, RETAIN, "JMSXAmqp"}
_BINARY = "ID:AMQP_BINARY:"  # as of AMQP's correlation ids that are not text
_BINARY_FORM = re.compile(r"([0-9A-F]{2})*")
_TYPE, _PRIORITY = "JMSType", "JMSPriority"
Pairs = list[tuple[str, str]]


def destination_of(topic: str) -> Destination:
    """The destination of a topic name; an error if our names cannot hold it or it is reserved."""
    if topic.startswith("$"):
        raise MqttError(Reason.TOPIC_NAME, "topics that begin with $ are reserved for the server")
    try:
        return Destination(to_destination(topic))
    except UsageError as error:
        raise MqttError(Reason.TOPIC_NAME, f"invalid topic name: {error.reason}") from None


def message_of(packet: PublishPacket | Will, destination: Destination, message_id: MessageId) -> Message:
    """The message of a PUBLISH packet or a will; persistent with QoS 1 and 2."""
    given = packet.properties
    if not given:
        properties: dict[str, Value] = {QOS: 1} if packet.qos == 1 else {}
        if packet.retain:
            properties[RETAIN] = True
        return Message(destination, properties, packet.payload, id=message_id, persistent=packet.qos > 0)
    check_payload(packet)
    properties, header = _properties(given.get(Property.USER, []))
    if packet.qos == 1:
        properties[QOS] = 1
    if packet.retain:
        properties[RETAIN] = True
    if given.get(Property.PAYLOAD_FORMAT):
        properties[FORMAT] = 1
    if Property.CONTENT_TYPE in given:
        properties[CONTENT_TYPE] = given[Property.CONTENT_TYPE]
    response, correlation = given.get(Property.RESPONSE_TOPIC), given.get(Property.CORRELATION_DATA)
    expiry = given.get(Property.MESSAGE_EXPIRY)
    return Message(
        destination,
        properties,
        packet.payload,
        id=message_id,
        persistent=packet.qos > 0,
        priority=int(header.get(_PRIORITY, PRIORITY_DEFAULT)),
        expiration_ms=None if expiry is None else message_id.ms + 1000 * expiry,
        correlation_id=None if correlation is None else _correlation_text(correlation),
        reply_to=None if response is None else destination_of(response),
        type=header.get(_TYPE),
    )


def qos_of(message: Message) -> int:
    """The QoS with which it was published; persistent messages of other protocols count as QoS 2."""
    return (1 if message.properties.get(QOS) == 1 else 2) if message.persistent else 0


def is_retained(message: Message) -> bool:
    """Published to be retained; a header of STOMP says so as text."""
    value = message.properties.get(RETAIN)
    return value is True or (isinstance(value, str) and value.lower() == "true")


def properties_of(message: Message, now_ms: int) -> dict[Property, Any]:
    """The properties of the PUBLISH packet of a message."""
    found: dict[Property, Any] = {}
    given = message.properties
    if given.get(FORMAT) == 1:
        found[Property.PAYLOAD_FORMAT] = 1
    if message.expiration_ms is not None:
        found[Property.MESSAGE_EXPIRY] = min(max((message.expiration_ms - now_ms + 999) // 1000, 0), 0xFFFF_FFFF)
    if isinstance(content_type := given.get(CONTENT_TYPE), str):
        found[Property.CONTENT_TYPE] = content_type
    if message.reply_to is not None and not message.reply_to.queue:
        found[Property.RESPONSE_TOPIC] = to_topic(message.reply_to.name)
    if message.correlation_id is not None:
        found[Property.CORRELATION_DATA] = _correlation_bytes(message.correlation_id)
    if pairs := _user_pairs(message):
        found[Property.USER] = pairs
    return found


def check_payload(packet: PublishPacket | Will) -> None:
    """An error if the payload is not what its format indicator says."""
    if not packet.properties.get(Property.PAYLOAD_FORMAT):
        return
    try:
        packet.payload.decode()
    except UnicodeDecodeError:
        raise MqttError(Reason.PAYLOAD_FORMAT, "the payload is not UTF-8, as its format indicator says") from None


def _correlation_text(data: bytes) -> str:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = _BINARY
    return f"{_BINARY}{data.hex().upper()}" if text.startswith(_BINARY) else text


def _correlation_bytes(text: str) -> bytes:
    if text.startswith(_BINARY) and _BINARY_FORM.fullmatch(body := text.removeprefix(_BINARY)):
        return bytes.fromhex(body)
    return text.encode()


def _properties(pairs: Pairs) -> tuple[dict[str, Value], dict[str, str]]:
    """Properties and header fields of user properties: the first of a name counts."""
    found: dict[str, Value] = {}
    header: dict[str, str] = {}
    whole = True
    for name, text in pairs:
        if name in (_TYPE, _PRIORITY) and name not in header and _is_header(name, text):
            header[name] = text
        elif name in found or not _is_property(name):
            whole = False
        else:
            found[name] = Untyped(text)
    if not whole or [*header] != [name for name, _ in pairs[len(pairs) - len(header) :]]:
        writer = Writer()
        for pair in pairs:
            writer.pair(pair)
        found[USER] = bytes(writer.data)
    return found, header


def _is_header(name: str, text: str) -> bool:
    return name == _TYPE or (text.isascii() and text.isdigit() and len(text) == 1 and int(text) <= PRIORITY_MAX)


def _is_property(name: str) -> bool:
    if name in _OWN:
        return False
    try:
        check_property_name(name)
    except UsageError:
        return False
    return True


def _user_pairs(message: Message) -> Pairs:
    pairs: Pairs = [(name, _text(value)) for name, value in message.properties.items() if name not in _OWN]
    if message.type is not None:
        pairs.append((_TYPE, message.type))
    if message.priority != PRIORITY_DEFAULT:
        pairs.append((_PRIORITY, str(message.priority)))
    kept = message.properties.get(USER)
    if isinstance(kept, bytes) and (whole := _kept_pairs(kept)) is not None:
        properties, header = _properties(whole)
        said = [(name, str(value)) for name, value in (*properties.items(), *header.items()) if name != USER]
        if sorted(said) == sorted(pairs):  # others could write the property too: it counts if it says the same
            return whole
    return [pair for pair in pairs if len(pair[0].encode()) <= 0xFFFF and len(pair[1].encode()) <= 0xFFFF]


def _kept_pairs(data: bytes) -> Pairs | None:
    reader, pairs = PacketReader(data), []
    try:
        while reader.left:
            pairs.append(reader.pair())
    except MqttError:
        return None
    return pairs


def _text(value: Value) -> str:
    """As in a header of STOMP; a NUL, which no string of MQTT may hold, becomes U+FFFD."""
    match value:
        case bool():
            return "true" if value else "false"
        case bytes():
            return base64.b64encode(value).decode()
        case str():
            return str(value).replace("\0", "\ufffd")
        case _:
            return str(value)


def user_property(pairs: Iterable[tuple[str, str]], name: str) -> str:
    """The first user property of a name; empty if there is none."""
    return next((text for one, text in pairs if one == name), "")


def pairs_of(properties: Mapping[Property, Any]) -> Pairs:
    pairs: Pairs = properties.get(Property.USER, [])
    return pairs
