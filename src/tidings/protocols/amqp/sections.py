"""The sections of an AMQP 1.0 message (specification, part 3.2), between bytes and values.

>>> decode_sections(encode(MessageSection.VALUE, "text"))
[Decoded(section=<MessageSection.VALUE: 119>, value='text', raw=b'\\x00Sw\\xa1\\x04text')]
"""

from enum import IntEnum
from typing import NamedTuple

from tidings.errors import CodecError
from tidings.protocols.amqp.wire.decode import decode_first
from tidings.protocols.amqp.wire.encode import encode_value
from tidings.protocols.amqp.wire.types import AmqpValue, Described, symbol, ulong


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


class Decoded(NamedTuple):
    section: MessageSection
    value: AmqpValue
    raw: bytes  # as it came, descriptor included


def decode_sections(content: bytes) -> list[Decoded]:
    """All sections; a CodecError with the position of the one that cannot be read."""
    sections: list[Decoded] = []
    start = 0
    while start < len(content):
        try:
            described, end = decode_first(content, start)
            section = _section(described)
        except CodecError as error:
            raise CodecError(error.code, error.reason, position=start) from None
        expected = _TYPES.get(section)
        if expected is not None and not isinstance(described.value, expected):
            reason = f"a section {section.name} is not a {expected.__name__}"
            raise CodecError("E_AMQP_SECTION", reason, position=start)
        sections.append(Decoded(section, described.value, content[start:end]))
        start = end
    return sections


def _section(described: AmqpValue) -> MessageSection:
    if isinstance(described, Described):
        descriptor = described.descriptor
        if isinstance(descriptor, symbol) and descriptor in _NAMES:
            return _NAMES[descriptor]
        if isinstance(descriptor, ulong) and MessageSection.HEADER <= descriptor <= MessageSection.FOOTER:
            return MessageSection(descriptor)
    raise CodecError("E_AMQP_SECTION", "not a section of a message", position=0)


def encode(section: MessageSection, value: AmqpValue) -> bytes:
    return b"\x00\x53" + bytes((section,)) + encode_value(value)
