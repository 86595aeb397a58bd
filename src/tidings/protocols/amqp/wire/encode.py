"""Writes AMQP's values (specification, part 1.6), each in its shortest form.

>>> encode_value([None, "a", ulong(36), 300]).hex()
'c0100440a10161532481000000000000012c'
"""

import struct
from collections.abc import Callable, Iterable
from uuid import UUID

from tidings.errors import CodecError
from tidings.protocols.amqp.wire.types import (
    AmqpValue,
    Array,
    Described,
    Pairs,
    TypeCode,
    byte,
    char,
    decimal32,
    decimal64,
    decimal128,
    float32,
    int32,
    short,
    symbol,
    timestamp,
    ubyte,
    uint,
    ulong,
    ushort,
)

DEPTH_MAX = 64


def encode_value(value: AmqpValue) -> bytes:
    """A CodecError says that AMQP has no such value."""
    try:
        return _encode(value, 0)
    except (struct.error, UnicodeEncodeError, OverflowError, KeyError, ValueError, AttributeError) as error:
        raise CodecError("E_AMQP_ENCODE", f"AMQP cannot represent the value ({type(error).__name__})") from None


def _encode(value: AmqpValue, depth: int) -> bytes:
    if (write := _WRITERS.get(type(value))) is not None:
        return write(value)
    if depth >= DEPTH_MAX:
        raise ValueError("nested too deeply")
    match value:
        case Described():
            return b"\x00" + _encode(value.descriptor, depth + 1) + _encode(value.value, depth + 1)
        case Array():
            return _array(value, depth + 1)
        case Pairs():
            return _compound(0xC1, [one for pair in value for one in pair], depth + 1)
        case dict():
            return _compound(0xC1, [one for pair in value.items() for one in pair], depth + 1)
        case list() | tuple():
            return _compound(0xC0, value, depth + 1) if value else b"\x45"
        case _:
            raise ValueError(f"no AMQP type for {type(value).__name__}")


def sized(short_code: int, content: bytes) -> bytes:
    """Binary, text or symbol: the constructor's short form; the long one is 16 more."""
    size = len(content)
    return bytes((short_code, size)) + content if size < 256 else struct.pack(">BI", short_code + 16, size) + content


def _compound(short_code: int, values: Iterable[AmqpValue], depth: int) -> bytes:
    parts = [_encode(one, depth) for one in values]
    content = b"".join(parts)
    if len(content) < 255 and len(parts) < 256:
        return bytes((short_code, len(content) + 1, len(parts))) + content
    return struct.pack(">BII", short_code + 16, len(content) + 4, len(parts)) + content


def _array(value: Array, depth: int) -> bytes:
    head = b"\x00" + _encode(value.descriptor, depth) if value.described else b""
    content = head + bytes((value.code,)) + b"".join([_element(value.code, one, depth) for one in value.elements])
    if len(content) < 255 and len(value.elements) < 256:
        return bytes((0xE0, len(content) + 1, len(value.elements))) + content
    return struct.pack(">BII", 0xF0, len(content) + 4, len(value.elements)) + content


def _element(code: TypeCode, value: AmqpValue, depth: int) -> bytes:
    """Without its constructor, which is the array's."""
    if (form := _FORMS.get(code)) is not None:
        return struct.pack(form, value)
    match code:
        case TypeCode.NULL:
            return b""
        case TypeCode.CHAR:
            return struct.pack(">I", ord(value))
        case TypeCode.UUID:
            raw: bytes = value.bytes
            return raw
        case TypeCode.DECIMAL128:
            return bytes(value)
        case TypeCode.BINARY:
            return struct.pack(">I", len(value)) + bytes(value)
        case TypeCode.STRING:
            return struct.pack(">I", len(text := str(value).encode())) + text
        case TypeCode.SYMBOL:
            return struct.pack(">I", len(text := str(value).encode("ascii"))) + text
        case TypeCode.LIST:
            return _wide(value, depth)
        case TypeCode.MAP:
            pairs = value if isinstance(value, Pairs) else value.items()
            return _wide([one for pair in pairs for one in pair], depth)
        case _:
            inner = _array(value, depth + 1)
            if inner[0] == 0xE0:
                return struct.pack(">II", inner[1] + 3, inner[2]) + inner[3:]
            return inner[1:]


def _wide(values: list[AmqpValue], depth: int) -> bytes:
    content = b"".join([_encode(one, depth + 1) for one in values])
    return struct.pack(">II", len(content) + 4, len(values)) + content


_FORMS = {
    TypeCode.BOOLEAN: ">?",
    TypeCode.UBYTE: ">B",
    TypeCode.BYTE: ">b",
    TypeCode.USHORT: ">H",
    TypeCode.SHORT: ">h",
    TypeCode.UINT: ">I",
    TypeCode.INT: ">i",
    TypeCode.FLOAT: ">f",
    TypeCode.DECIMAL32: ">I",
    TypeCode.ULONG: ">Q",
    TypeCode.LONG: ">q",
    TypeCode.DOUBLE: ">d",
    TypeCode.TIMESTAMP: ">q",
    TypeCode.DECIMAL64: ">Q",
}


def _unsigned(zero: int, small: int, wide: int, form: str) -> Callable[[int], bytes]:
    packed = struct.Struct(form)

    def write(value: int) -> bytes:
        if 0 < value < 256:
            return bytes((small, value))
        return packed.pack(wide, value) if value else bytes((zero,))

    return write


def _signed(small: int, wide: int, form: str) -> Callable[[int], bytes]:
    packed = struct.Struct(form)

    def write(value: int) -> bytes:
        return bytes((small, value & 0xFF)) if -128 <= value < 128 else packed.pack(wide, value)

    return write


def _fixed(code: int, form: str) -> Callable[[AmqpValue], bytes]:
    packed = struct.Struct(f">B{form}")
    return lambda value: packed.pack(code, value)


_WRITERS: dict[type, Callable[[AmqpValue], bytes]] = {
    type(None): lambda _: b"\x40",
    bool: lambda value: b"\x41" if value else b"\x42",
    int: _signed(0x55, 0x81, ">Bq"),
    float: _fixed(0x82, "d"),
    str: lambda value: sized(0xA1, value.encode()),
    bytes: lambda value: sized(0xA0, value),
    symbol: lambda value: sized(0xA3, value.encode("ascii")),
    uint: _unsigned(0x43, 0x52, 0x70, ">BI"),
    ulong: _unsigned(0x44, 0x53, 0x80, ">BQ"),
    ubyte: _fixed(0x50, "B"),
    byte: _fixed(0x51, "b"),
    ushort: _fixed(0x60, "H"),
    short: _fixed(0x61, "h"),
    int32: _signed(0x54, 0x71, ">Bi"),
    float32: _fixed(0x72, "f"),
    char: lambda value: struct.pack(">BI", 0x73, ord(value)),
    timestamp: _fixed(0x83, "q"),
    decimal32: _fixed(0x74, "I"),
    decimal64: _fixed(0x84, "Q"),
    decimal128: lambda value: struct.pack(">B16s", 0x94, value),
    UUID: lambda value: b"\x98" + value.bytes,
}
