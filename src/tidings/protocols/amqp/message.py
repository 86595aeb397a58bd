"""Messages of AMQP 1.0 and ours: the mapping of docs/protocols.md, in both directions, without loss.

A section of AMQP that follows from our fields is made from them. One that does not (other types of numbers,
annotations, a list as body) is kept as it came in the property JMSXAmqp, and used when the message leaves by AMQP.
Whether a message came by AMQP, and in which form its body did, stands in the first three bits of its id's publisher,
which the broker gives out below 2²⁹: what others can see of a message says nothing that its publisher has not said.
A client of another protocol can write both: so what is kept counts only if it says what the message itself says.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from math import isfinite, isnan
from typing import TypeAlias
from uuid import UUID

from tidings.errors import CodecError, TidingsError
from tidings.model.constraint import NAME_BYTES_MAX
from tidings.model.destination import Destination
from tidings.model.message import PRIORITY_DEFAULT, PRIORITY_MAX, Message, reserved
from tidings.model.message_id import MessageId
from tidings.model.values import INT_MAX, INT_MIN, Untyped, Value
from tidings.protocols.amqp.address import address_of, read_address
from tidings.protocols.amqp.decimals import decimal_text
from tidings.protocols.amqp.ids import id_text, id_value
from tidings.protocols.amqp.sections import BODY, Decoded, MessageSection, decode_sections, encode
from tidings.protocols.amqp.wire.types import (
    AmqpValue,
    Array,
    Described,
    Pairs,
    decimal32,
    decimal64,
    decimal128,
    symbol,
    timestamp,
    ubyte,
    uint,
)

KEPT = "JMSXAmqp"
MESSAGE_ID, USER_ID, CONTENT_TYPE = "JMSXMessageID", "JMSXUserID", "content-type"
GROUP_ID, GROUP_SEQUENCE = "JMSXGroupID", "JMSXGroupSeq"
_OWN = (KEPT, MESSAGE_ID, USER_ID, CONTENT_TYPE, GROUP_ID, GROUP_SEQUENCE)  # not application properties
_FIELDS = 13  # of the properties section
(_ID, _USER, _TO, _SUBJECT, _REPLY_TO, _CORRELATION, _CONTENT_TYPE, _, _EXPIRY, _CREATED, _GROUP, _SEQUENCE, _) = range(
    _FIELDS
)
_PLAIN = (bool, int, float, str, bytes)  # types that come back as they went
_UINT_MAX = 0xFFFF_FFFF
_TIME_MAX = 1 << 53
_UINT_TEXT = re.compile("0|[1-9][0-9]{0,9}")
_JMS_TO, _JMS_REPLY_TO = symbol("x-opt-jms-dest"), symbol("x-opt-jms-reply-to")
_DELAY, _DELIVERY_TIME = symbol("x-opt-delivery-delay"), symbol("x-opt-delivery-time")
_JMS_KINDS = ("queue", "topic", "temporary-queue", "temporary-topic")  # as the annotations number them
FORM_SHIFT = 29
Kept: TypeAlias = dict[MessageSection, list[Decoded]]
_NO_FIELDS = encode(MessageSection.PROPERTIES, [])  # kept: there were none, whatever properties say


class MessageForm(IntEnum):
    """The kind of AMQP body that the message arrived with."""

    OTHER_PROTOCOL = 0
    DATA = 1
    TEXT = 2
    BINARY = 3
    KEPT = 4


@dataclass(frozen=True, slots=True)
class Incoming:
    """Properties of a link that apply to all its messages."""

    destination: Destination | None  # None: each message says it itself, in `to`
    next_id: Callable[[], MessageId]
    now_ms: int
    plain_is_queue: bool


def form_of(message: Message) -> MessageForm:
    try:
        return MessageForm(message.id.publisher >> FORM_SHIFT)
    except ValueError:
        return MessageForm.OTHER_PROTOCOL


# --- from AMQP --------------------------------------------------------------------------------------------------------


def read_message(content: bytes, link: Incoming) -> Message:
    sections = decode_sections(content)
    by_kind = {one.section: one for one in sections}
    header = _padded(by_kind.get(MessageSection.HEADER), 5)
    fields = _padded(by_kind.get(MessageSection.PROPERTIES), _FIELDS)
    given = (
        by_kind[MessageSection.APPLICATION_PROPERTIES].value if MessageSection.APPLICATION_PROPERTIES in by_kind else {}
    )
    annotations = (
        by_kind[MessageSection.MESSAGE_ANNOTATIONS].value if MessageSection.MESSAGE_ANNOTATIONS in by_kind else {}
    )
    form, body = _read_body([one for one in sections if one.section in BODY])
    properties = {name: value for name, one in given.items() if (value := _attribute(name, one)) is not None}
    exact = len(properties) == len(given) and all(type(one) in _PLAIN for one in given.values())
    exact = exact and not any(name in _OWN for name in given)  # which would come back as fields
    properties.update(_own_properties(fields))
    identity = link.next_id()
    message = Message(
        link.destination or _destination(fields[_TO], _kind(annotations, _JMS_TO), link),
        properties,
        body,
        replace(identity, publisher=identity.publisher | form << FORM_SHIFT),
        persistent=header[0] is True,
        priority=min(_int(header[1], PRIORITY_DEFAULT), PRIORITY_MAX),
        timestamp_ms=_int(fields[_CREATED], None, 0),
        expiration_ms=_expiration(header[2], fields[_EXPIRY], link.now_ms),
        correlation_id=id_text(fields[_CORRELATION]),
        reply_to=_reply_to(fields[_REPLY_TO], _kind(annotations, _JMS_REPLY_TO), link),
        type=fields[_SUBJECT] if type(fields[_SUBJECT]) is str else None,
        deliver_at_ms=_deliver_at(annotations, link.now_ms),
    )
    kept = [one.raw for one in sections if one.section in (MessageSection.MESSAGE_ANNOTATIONS, MessageSection.FOOTER)]
    if _int(header[1], PRIORITY_DEFAULT) > PRIORITY_MAX or header[3] is False:
        kept.append(by_kind[MessageSection.HEADER].raw)
    if not _same(_fields(message, form), fields):
        kept.append(by_kind[MessageSection.PROPERTIES].raw if MessageSection.PROPERTIES in by_kind else _NO_FIELDS)
    if not exact:
        kept.append(by_kind[MessageSection.APPLICATION_PROPERTIES].raw)
    if form is MessageForm.KEPT:
        kept += [one.raw for one in sections if one.section in BODY]
    return replace(message, properties={**properties, KEPT: b"".join(kept)}) if kept else message


def _padded(section: Decoded | None, size: int) -> list[AmqpValue]:
    values = [] if section is None else section.value
    return [*values, *[None] * (size - len(values))]


def _read_body(sections: list[Decoded]) -> tuple[MessageForm, bytes]:
    """The body for other protocols, and the data needed to restore its sections."""
    if len(sections) == 1:
        section, value, _ = sections[0]
        if section is MessageSection.DATA:
            return MessageForm.DATA, value
        if type(value) is str:
            return MessageForm.TEXT, value.encode()
        if type(value) is bytes:
            return MessageForm.BINARY, value
    if all(one.section is MessageSection.DATA for one in sections):
        return MessageForm.KEPT, b"".join(one.value for one in sections)
    values = [one.value for one in sections]
    return MessageForm.KEPT, _json(values[0] if len(values) == 1 else values)


def _json(value: AmqpValue) -> bytes:
    """Readable for those who do not know AMQP's types."""
    if value is None:
        return b""
    try:
        return json.dumps(_jsonable(value), ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError):
        raise CodecError(
            "E_AMQP_BODY", "message body has a type that other protocols cannot represent", position=0
        ) from None


def _jsonable(value: AmqpValue) -> AmqpValue:
    match value:
        case None | bool() | str():
            return value
        case decimal32() | decimal64() | decimal128():
            return decimal_text(value)
        case float() if not isfinite(value):
            return "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case int() | float():
            return value
        case bytes():
            return value.decode(errors="replace")
        case Described():
            return _jsonable(value.value)
        case dict() | Pairs():
            pairs = value.items() if isinstance(value, dict) else value
            return {_json_name(name): _jsonable(one) for name, one in pairs}
        case Array():
            return [_jsonable(one) for one in value.elements]
        case _:
            return [_jsonable(one) for one in value] if hasattr(value, "__iter__") else str(value)


def _json_name(name: AmqpValue) -> str:
    """JSON has texts only: other values as they would be written."""
    text = _jsonable(name)
    return text if isinstance(text, str) else json.dumps(text, ensure_ascii=False, allow_nan=False)


def _attribute(name: AmqpValue, value: AmqpValue) -> Value | None:
    """The application property as a selector can see it; None if it cannot."""
    if type(name) is not str or not name or reserved(name) or name == KEPT or len(name.encode()) > NAME_BYTES_MAX:
        return None
    match value:
        case None | decimal32() | decimal64() | decimal128():
            return None
        case bool():
            return value
        case int():
            return int(value) if INT_MIN <= value <= INT_MAX else None
        case float():
            return None if isnan(value) else float(value)
        case str():
            return str.__str__(value)
        case UUID():
            return str(value)
        case bytes():
            return value
        case _:
            return None


def _own_properties(fields: list[AmqpValue]) -> dict[str, Value]:
    """Fields of AMQP that are properties with us."""
    found: dict[str, Value] = {}
    if (text := id_text(fields[_ID])) is not None:
        found[MESSAGE_ID] = text
    if type(fields[_USER]) is bytes:
        found[USER_ID] = _text_or_bytes(fields[_USER])
    if type(fields[_CONTENT_TYPE]) is symbol:
        found[CONTENT_TYPE] = str(fields[_CONTENT_TYPE])
    if type(fields[_GROUP]) is str:
        found[GROUP_ID] = fields[_GROUP]
    if type(fields[_SEQUENCE]) is uint:
        found[GROUP_SEQUENCE] = int(fields[_SEQUENCE])
    return found


def _text_or_bytes(value: bytes) -> str | bytes:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value


def _int(value: AmqpValue, default: AmqpValue, least: int = 0) -> AmqpValue:
    return int(value) if isinstance(value, int) and least <= value <= INT_MAX else default


def _expiration(ttl_ms: AmqpValue, absolute_ms: AmqpValue, now_ms: int) -> int | None:
    """Whichever comes first."""
    times = [_int(absolute_ms, None, 1), now_ms + ttl_ms if isinstance(ttl_ms, uint) and ttl_ms else None]
    return min((one for one in times if one is not None), default=None)


def _deliver_at(annotations: dict[AmqpValue, AmqpValue], now_ms: int) -> int | None:
    """The delivery time that the annotations ask for; None: at once."""
    delay, time = annotations.get(_DELAY), annotations.get(_DELIVERY_TIME)
    for name, value in ((_DELAY, delay), (_DELIVERY_TIME, time)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _TIME_MAX):
            raise CodecError("E_AMQP_DELAY", f"{name} must be a whole number of milliseconds")
    due_ms = int(time) if isinstance(time, int) else now_ms + int(delay) if isinstance(delay, int) else 0
    return due_ms if due_ms > now_ms else None


def _kind(annotations: dict[AmqpValue, AmqpValue], name: symbol) -> tuple[str, ...]:
    """The destination kind in a JMS annotation, as a terminus capability; empty if absent."""
    kind = annotations.get(name)
    return _JMS_KINDS[kind : kind + 1] if isinstance(kind, int) and kind >= 0 else ()


def _destination(to: AmqpValue, kind: tuple[str, ...], link: Incoming) -> Destination:
    if type(to) is not str or not to:
        raise CodecError("E_AMQP_TO", "the link has no target address: set `to` in each message")
    return Destination.parse(read_address(to, kind, plain_is_queue=link.plain_is_queue))


def _reply_to(address: AmqpValue, kind: tuple[str, ...], link: Incoming) -> Destination | None:
    if type(address) is not str:
        return None
    try:
        return Destination.parse(read_address(address, kind, plain_is_queue=link.plain_is_queue))
    except TidingsError:
        return None  # an address elsewhere: those who speak AMQP will see it


def _same(ours: list[AmqpValue], theirs: list[AmqpValue]) -> bool:
    pairs = zip(ours, theirs, strict=True)
    return len(theirs) == _FIELDS and all(type(one) is type(other) and one == other for one, other in pairs)


# --- to AMQP ----------------------------------------------------------------------------------------------------------


def write_message(
    message: Message, attempt: int, now_ms: int, annotations: Mapping[str, int | str] | None = None
) -> bytes:
    """`annotations`: what this delivery says beside the message, such as where it was sent to."""
    form, kept = _genuine(message)
    parts = [encode(MessageSection.HEADER, _header(message, kept.get(MessageSection.HEADER), attempt, now_ms))]
    if annotations:
        said = {symbol(name): value for name, value in annotations.items()}
        parts.append(encode(MessageSection.DELIVERY_ANNOTATIONS, said))
    return b"".join((*parts, *_bare(message, form, kept)))


def _genuine(message: Message) -> tuple[MessageForm, Kept]:
    """In which form it came by AMQP, and what was kept of it; none, if that says something else than the message: then
    receivers would see what neither selectors nor access rules have."""
    form, raw = form_of(message), _kept_bytes(message)
    if form is MessageForm.OTHER_PROTOCOL or (not raw and _follows(message, form)):
        return form, {}
    kept: Kept = {}
    try:
        for one in decode_sections(raw):
            kept.setdefault(one.section, []).append(one)
        content = b"".join(_bare(message, form, kept))
        once = all(len(many) == 1 for section, many in kept.items() if section not in BODY)
        # What a plain address in reply-to means is a setting, perhaps of another broker.
        if once and any(_says(_mapped(content, message, plain), message) for plain in (True, False)):
            return form, kept
    except TidingsError:
        pass
    return MessageForm.OTHER_PROTOCOL, {}


def _follows(message: Message, form: MessageForm) -> bool:
    """The usual case, seen at once: all sections follow from the message."""
    own = {name for name in _OWN if name in message.properties}
    if form is MessageForm.KEPT or (own and not own <= {MESSAGE_ID, *_said_by_fields(message)}):
        return False
    if not isinstance(message.properties.get(MESSAGE_ID, ""), str):
        return False
    return form is not MessageForm.TEXT or isinstance(_text_or_bytes(message.body), str)


def _mapped(content: bytes, message: Message, plain_is_queue: bool) -> Message:
    return read_message(content, Incoming(message.destination, lambda: message.id, 0, plain_is_queue))


def _says(kept: Message, message: Message) -> bool:
    """True if the section restored from the kept data equals the original."""
    late = kept.expiration_ms is None or message.expiration_ms is None or kept.expiration_ms >= message.expiration_ms
    return late and _told(kept) == _told(message)


def _told(message: Message) -> tuple[object, ...]:
    properties = {name: (type(one := _plain(value)), one) for name, value in message.properties.items() if name != KEPT}
    fields = (message.timestamp_ms, message.correlation_id, message.reply_to, message.type)
    return properties, message.body, fields


def _bare(message: Message, form: MessageForm, kept: Kept) -> list[bytes]:
    """The bare message, without annotations added in transit."""
    parts = _raw(kept, MessageSection.MESSAGE_ANNOTATIONS)
    if MessageSection.PROPERTIES in kept:
        parts += [one.raw for one in kept[MessageSection.PROPERTIES] if one.value]
    else:
        parts.append(_trimmed(_fields(message, form)))
    parts.append(_application_properties(message, form, kept.get(MessageSection.APPLICATION_PROPERTIES)))
    match form:
        case MessageForm.TEXT:
            parts.append(encode(MessageSection.VALUE, message.body.decode(errors="replace")))
        case MessageForm.BINARY:
            parts.append(encode(MessageSection.VALUE, message.body))
        case MessageForm.KEPT:
            parts += [one.raw for section in BODY for one in kept.get(section, ())]
        case _:
            parts.append(encode(MessageSection.DATA, message.body))
    return [*parts, *_raw(kept, MessageSection.FOOTER)]


def _kept_bytes(message: Message) -> bytes:
    kept = message.properties.get(KEPT, b"")
    return kept if isinstance(kept, bytes) else b""


def _raw(kept: Kept, section: MessageSection) -> list[bytes]:
    return [one.raw for one in kept.get(section, ())]


def _header(message: Message, kept: list[Decoded] | None, attempt: int, now_ms: int) -> list[AmqpValue]:
    said = _padded(kept[0] if kept else None, 5)
    given = said[1] if message.priority == PRIORITY_MAX else None
    priority = given if type(given) is ubyte and given > PRIORITY_MAX else ubyte(message.priority)
    left_ms = None if message.expiration_ms is None else min(max(message.expiration_ms - now_ms, 1), _UINT_MAX)
    ttl = None if left_ms is None else uint(left_ms)
    return [message.persistent, priority, ttl, attempt == 1 and said[3] is not False, uint(attempt - 1)]


def _fields(message: Message, form: MessageForm) -> list[AmqpValue]:
    """The properties section that our fields stand for."""
    fields: list[AmqpValue] = [None] * _FIELDS
    properties = {name: _plain(message.properties[name]) for name in _OWN if name in message.properties}
    if form is MessageForm.OTHER_PROTOCOL:  # by AMQP only what its publisher said
        fields[_ID] = message.id.jms
        fields[_TO] = address_of(message.destination)
        fields[_CREATED] = timestamp(message.id.ms)
        fields[_EXPIRY] = None if message.expiration_ms is None else timestamp(message.expiration_ms)
    elif isinstance(text := properties.get(MESSAGE_ID), str):
        fields[_ID] = id_value(text)
    if message.timestamp_ms is not None:
        fields[_CREATED] = timestamp(message.timestamp_ms)
    fields[_SUBJECT] = message.type
    fields[_REPLY_TO] = None if message.reply_to is None else address_of(message.reply_to)
    fields[_CORRELATION] = None if message.correlation_id is None else id_value(message.correlation_id)
    user, content_type = properties.get(USER_ID), properties.get(CONTENT_TYPE)
    fields[_USER] = user.encode() if isinstance(user, str) else user if isinstance(user, bytes) else None
    if isinstance(content_type, str) and content_type.isascii():
        fields[_CONTENT_TYPE] = symbol(content_type)
    group, sequence = properties.get(GROUP_ID), message.properties.get(GROUP_SEQUENCE)
    fields[_GROUP] = group if isinstance(group, str) else None
    if isinstance(sequence, Untyped) and _UINT_TEXT.fullmatch(sequence):
        sequence = int(sequence)
    if type(sequence) is int and 0 <= sequence <= _UINT_MAX:
        fields[_SEQUENCE] = uint(sequence)
    return fields


def _plain(value: Value) -> Value:
    """Text is text, whatever else it can be read as."""
    return str.__str__(value) if isinstance(value, str) else value


def _said_by_fields(message: Message) -> set[str]:
    """Properties of a message from another protocol that are fields of the properties section."""
    fields = _fields(message, MessageForm.OTHER_PROTOCOL)
    places = {USER_ID: _USER, CONTENT_TYPE: _CONTENT_TYPE, GROUP_ID: _GROUP, GROUP_SEQUENCE: _SEQUENCE}
    return {name for name, place in places.items() if fields[place] is not None}


def _trimmed(fields: list[AmqpValue]) -> bytes:
    while fields and fields[-1] is None:
        fields.pop()
    return encode(MessageSection.PROPERTIES, fields) if fields else b""


def _application_properties(message: Message, form: MessageForm, kept: list[Decoded] | None) -> bytes:
    """As they came, and what was added on the way, as to dead letters."""
    own = set(_OWN) if form else _said_by_fields(message)
    values: dict[AmqpValue, AmqpValue] = dict(kept[0].value) if kept else {}
    added = {name: _plain(one) for name, one in message.properties.items() if name not in own and name not in values}
    values.update(added)
    if kept and not added:
        return kept[0].raw
    return encode(MessageSection.APPLICATION_PROPERTIES, values) if values else b""
