"""The sections of an AMQP 1.0 message (specification, part 3.2), between bytes and values of Proton's types.

Proton's own Message class does not tell what was absent from what has its default value, and keeps one body section
only: an exact copy needs the sections themselves.

>>> decode_sections(encode(MessageSection.VALUE, "text"))
[Decoded(section=<MessageSection.VALUE: 119>, value='text', raw=b'\\x00Sw\\xa1\\x04text')]
"""

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import Any, NamedTuple, TypeAlias

from proton import Array, Data, Delivery, Described, ProtonException, symbol, ulong

from tidings.errors import CodecError

AmqpValue: TypeAlias = Any  # whatever Proton makes of a value


class MessageSection(IntEnum):
    HEADER = 0x70
    DELIVERY_ANNOTATIONS = 0x71
    MESSAGE_ANNOTATIONS = 0x72
    PROPERTIES = 0x73
    APPLICATION_PROPERTIES = 0x74
    DATA = 0x75
    SEQUENCE = 0x76
    VALUE = 0x77
    FOOTER = 0x78


BODY = (MessageSection.DATA, MessageSection.SEQUENCE, MessageSection.VALUE)
_TYPES: dict[MessageSection, type] = {
    MessageSection.HEADER: list,
    MessageSection.DELIVERY_ANNOTATIONS: dict,
    MessageSection.MESSAGE_ANNOTATIONS: dict,
    MessageSection.PROPERTIES: list,
    MessageSection.APPLICATION_PROPERTIES: dict,
    MessageSection.DATA: bytes,
    MessageSection.SEQUENCE: list,
    MessageSection.FOOTER: dict,
}
_NAMES = {
    "amqp:header:list": MessageSection.HEADER,
    "amqp:delivery-annotations:map": MessageSection.DELIVERY_ANNOTATIONS,
    "amqp:message-annotations:map": MessageSection.MESSAGE_ANNOTATIONS,
    "amqp:properties:list": MessageSection.PROPERTIES,
    "amqp:application-properties:map": MessageSection.APPLICATION_PROPERTIES,
    "amqp:data:binary": MessageSection.DATA,
    "amqp:amqp-sequence:list": MessageSection.SEQUENCE,
    "amqp:amqp-value:*": MessageSection.VALUE,
    "amqp:footer:map": MessageSection.FOOTER,
}
_BINARY8, _BINARY32, _STRING8, _STRING32 = 0xA0, 0xB0, 0xA1, 0xB1
_LIST0, _MAP_EMPTY = b"\x45", b"\xc1\x01\x00"
_MAP32, _LONG8, _LONG, _DOUBLE = 0xD1, 0x55, 0x81, 0x82
_TRUE, _FALSE = b"\x41", b"\x42"


class Decoded(NamedTuple):
    section: MessageSection
    value: AmqpValue
    raw: bytes  # as it came, descriptor included


def decode_sections(content: bytes) -> list[Decoded]:
    """All sections; a CodecError with the position of the one that cannot be read."""
    sections: list[Decoded] = []
    start = 0
    data = Data()
    while start < len(content):
        try:
            described, used = decode_first(data, content[start:] if start else content)
            section = _section(described)
        except CodecError as error:
            raise CodecError(error.code, error.reason, position=start) from None
        expected = _TYPES.get(section)
        if expected is not None and not isinstance(described.value, expected):
            reason = f"a section {section.name} is not a {expected.__name__}"
            raise CodecError("E_AMQP_SECTION", reason, position=start)
        sections.append(Decoded(section, described.value, content[start : start + used]))
        start += used
    return sections


def decode_first(data: Data, content: bytes) -> tuple[AmqpValue, int]:
    """The first value of these bytes, and how many it took."""
    with reading():
        data.clear()
        used = data.decode(content)
        data.rewind()
        if used <= 0 or data.next() is None:
            raise CodecError("E_AMQP_DECODE", "value missing", position=0)
        try:
            return own(data.get_object()), used
        except (TypeError, ValueError):  # a map with names that Python cannot hash
            data.rewind()
            data.next()
            return _walked(data), used


class Pairs(list[tuple[AmqpValue, AmqpValue]]):
    """A map that cannot be a dict."""


def _walked(data: Data) -> AmqpValue:
    """The value here; slower than by `get_object`, but for every map there is a value."""
    match data.type():
        case Data.MAP:
            content = _inside(data)
            pairs = Pairs(zip(content[::2], content[1::2], strict=True))
            try:
                return dict(pairs)
            except TypeError:
                return pairs
        case Data.LIST:
            return _inside(data)
        case Data.DESCRIBED:
            return Described(*_inside(data))
        case _:
            return own(data.get_object())


def _inside(data: Data) -> list[AmqpValue]:
    data.enter()
    found = []
    while data.next() is not None:
        found.append(_walked(data))
    data.exit()
    return found


@contextmanager
def reading() -> Iterator[None]:
    """Around what makes Python's values of those that a client sent: Proton does not check all that it decodes."""
    try:
        yield
    except (ProtonException, ValueError, TypeError, KeyError, OverflowError, AttributeError) as error:
        raise CodecError("E_AMQP_DECODE", f"not an AMQP value ({type(error).__name__})", position=0) from None
    except RecursionError:
        raise CodecError("E_AMQP_DECODE", "nested too deeply", position=0) from None


def state_of(delivery: Delivery) -> list[AmqpValue]:
    """The fields of the delivery state that the client has set, of one that Proton knows nothing of."""
    with reading():
        state = own(delivery.remote.data)
    return state if isinstance(state, list) else []


def _section(described: AmqpValue) -> MessageSection:
    if isinstance(described, Described):
        descriptor = described.descriptor
        if isinstance(descriptor, symbol) and descriptor in _NAMES:
            return _NAMES[descriptor]
        if isinstance(descriptor, ulong) and MessageSection.HEADER <= descriptor <= MessageSection.FOOTER:
            return MessageSection(descriptor)
    raise CodecError("E_AMQP_SECTION", "not a section of a message", position=0)


def own(value: AmqpValue) -> AmqpValue:
    """Without views of Proton's memory, which the next value will overwrite."""
    match value:
        case memoryview():
            return bytes(value)
        case list():
            return [own(one) for one in value]
        case dict():
            return {own(name): own(one) for name, one in value.items()}
        case Described():
            return Described(own(value.descriptor), own(value.value))
        case Array():
            return Array(own(value.descriptor), value.type, *map(own, value.elements))
        case _:
            return value


def encode(section: MessageSection, value: AmqpValue) -> bytes:
    head = b"\x00\x53" + bytes((section,))
    if type(value) is bytes:
        return head + _sized(_BINARY8, _BINARY32, value)
    if type(value) is str:
        return head + _sized(_STRING8, _STRING32, value.encode())
    if isinstance(value, (list, dict)) and not value:
        return head + (_LIST0 if isinstance(value, list) else _MAP_EMPTY)
    return head + (_map(value) if type(value) is dict else encode_value(value))


def _map(values: dict[AmqpValue, AmqpValue]) -> bytes:
    """As Proton writes it, which however cannot count beyond 65,535 names and values."""
    content = b"".join([_simple(name) + _simple(one) for name, one in values.items()])
    return struct.pack(">BII", _MAP32, len(content) + 4, 2 * len(values)) + content


def _simple(value: AmqpValue) -> bytes:
    """Encodes the common types directly; other types go through Proton."""
    kind = type(value)
    if kind is str:
        return _sized(_STRING8, _STRING32, value.encode())
    if kind is int and -128 <= value <= 127:
        return struct.pack(">Bb", _LONG8, value)
    if kind is int and -(2**63) <= value < 2**63:
        return struct.pack(">Bq", _LONG, value)
    if kind is bool:
        return _TRUE if value else _FALSE
    if kind is float:
        return struct.pack(">Bd", _DOUBLE, value)
    if kind is bytes:
        return _sized(_BINARY8, _BINARY32, value)
    return encode_value(value)


def encode_value(value: AmqpValue) -> bytes:
    data = Data()
    try:
        data.put_object(value)
        return bytes(data.encode())
    except (ProtonException, KeyError, ValueError, RecursionError) as error:
        raise CodecError("E_AMQP_ENCODE", f"AMQP cannot represent the value ({type(error).__name__})") from None


def _sized(short: int, long: int, content: bytes) -> bytes:
    size = len(content)
    return (struct.pack(">BB", short, size) if size < 256 else struct.pack(">BI", long, size)) + content
