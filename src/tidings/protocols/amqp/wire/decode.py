"""Reads AMQP's values (specification, part 1.6). Nothing of what comes is trusted: sizes, counts, depth, text.

>>> decode_first(bytes.fromhex("a103666f6f41"))
('foo', 5)
>>> decode_first(b"\\xa1\\x09foo")
Traceback (most recent call last):
tidings.errors.CodecError: E_AMQP_DECODE at 2: the value is longer than its frame
"""

import struct
from collections.abc import Callable
from typing import TypeAlias
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
EMPTY_ELEMENTS_MAX = 1 << 16  # of an array whose elements take no bytes
_DESCRIBED = 0x00
Make: TypeAlias = Callable[..., AmqpValue]
_U32 = struct.Struct(">I")

# constructor -> bytes that follow, how they become a value
_FIXED: dict[int, tuple[int, Make]] = {
    0x40: (0, lambda _: None),
    0x41: (0, lambda _: True),
    0x42: (0, lambda _: False),
    0x43: (0, lambda _: uint(0)),
    0x44: (0, lambda _: ulong(0)),
    0x45: (0, lambda _: []),
    0x50: (1, lambda raw: ubyte(raw[0])),
    0x51: (1, lambda raw: byte(int.from_bytes(raw, "big", signed=True))),
    0x52: (1, lambda raw: uint(raw[0])),
    0x53: (1, lambda raw: ulong(raw[0])),
    0x54: (1, lambda raw: int32(int.from_bytes(raw, "big", signed=True))),
    0x55: (1, lambda raw: int.from_bytes(raw, "big", signed=True)),
    0x60: (2, lambda raw: ushort(int.from_bytes(raw, "big"))),
    0x61: (2, lambda raw: short(int.from_bytes(raw, "big", signed=True))),
    0x70: (4, lambda raw: uint(int.from_bytes(raw, "big"))),
    0x71: (4, lambda raw: int32(int.from_bytes(raw, "big", signed=True))),
    0x72: (4, lambda raw: float32(struct.unpack(">f", raw)[0])),
    0x73: (4, lambda raw: char(chr(int.from_bytes(raw, "big")))),
    0x74: (4, lambda raw: decimal32(int.from_bytes(raw, "big"))),
    0x80: (8, lambda raw: ulong(int.from_bytes(raw, "big"))),
    0x81: (8, lambda raw: int.from_bytes(raw, "big", signed=True)),
    0x82: (8, lambda raw: struct.unpack(">d", raw)[0]),
    0x83: (8, lambda raw: timestamp(int.from_bytes(raw, "big", signed=True))),
    0x84: (8, lambda raw: decimal64(int.from_bytes(raw, "big"))),
    0x94: (16, decimal128),
    0x98: (16, lambda raw: UUID(bytes=raw)),
}
_VARIABLE: dict[int, Make] = {0x0: bytes, 0x1: lambda raw: raw.decode(), 0x3: lambda raw: symbol(raw.decode("ascii"))}
# constructor -> the type in an array of it
_T = TypeCode
_CODES = {0x41: _T.BOOLEAN, 0x42: _T.BOOLEAN, 0x43: _T.UINT, 0x44: _T.ULONG, 0x45: _T.LIST, 0x52: _T.UINT}
_CODES |= {0x53: _T.ULONG, 0x54: _T.INT, 0x55: _T.LONG, 0xA0: _T.BINARY, 0xA1: _T.STRING, 0xA3: _T.SYMBOL}
_CODES |= {0xC0: _T.LIST, 0xC1: _T.MAP, 0xE0: _T.ARRAY}


def decode_first(content: bytes, at: int = 0) -> tuple[AmqpValue, int]:
    """The value at this place, and where it ends. Throws a CodecError."""
    try:
        return _value(content, at, 0)
    except (IndexError, struct.error):
        raise CodecError("E_AMQP_DECODE", "the value is longer than its frame", position=at) from None
    except UnicodeDecodeError:
        raise CodecError("E_AMQP_DECODE", "text is not UTF-8, or a symbol not ASCII", position=at) from None
    except (ValueError, OverflowError):
        raise CodecError("E_AMQP_DECODE", "a character that does not exist", position=at) from None


def _value(content: bytes, at: int, depth: int) -> tuple[AmqpValue, int]:
    code = content[at]
    if code != _DESCRIBED:
        return _of(code, content, at + 1, depth)
    _check_depth(depth, at)
    descriptor, at = _value(content, at + 1, depth + 1)
    value, at = _value(content, at, depth + 1)
    return Described(descriptor, value), at


def _of(code: int, content: bytes, at: int, depth: int) -> tuple[AmqpValue, int]:
    """A value whose constructor has been read."""
    if (fixed := _FIXED.get(code)) is not None:
        size, make = fixed
        return make(_slice(content, at, size)), at + size
    if code == 0x56:
        if (found := content[at]) > 1:
            raise CodecError("E_AMQP_DECODE", "a boolean is 0 or 1", position=at)
        return found == 1, at + 1
    kind = code >> 4
    if kind not in (0xA, 0xB, 0xC, 0xD, 0xE, 0xF):
        raise CodecError("E_AMQP_DECODE", f"unknown constructor 0x{code:02x}", position=at - 1)
    if kind & 1:
        size, at = _U32.unpack_from(content, at)[0], at + 4
    else:
        size, at = content[at], at + 1
    raw = _slice(content, at, size)
    if kind in (0xA, 0xB):
        if (make_text := _VARIABLE.get(code & 15)) is not None:
            return make_text(raw), at + size
    elif code & 15 == 0 and kind >= 0xE:
        return _array(raw, kind & 1, depth), at + size
    elif code & 15 <= 1 and kind < 0xE:
        return _compound(raw, kind & 1, depth, is_map=bool(code & 1)), at + size
    raise CodecError("E_AMQP_DECODE", f"unknown constructor 0x{code:02x}", position=at - 1)


def _slice(content: bytes, at: int, size: int) -> bytes:
    if size > len(content) - at:
        raise CodecError("E_AMQP_DECODE", "the value is longer than its frame", position=at)
    return content[at : at + size]


def _compound(raw: bytes, wide: int, depth: int, *, is_map: bool) -> AmqpValue:
    _check_depth(depth, 0)
    count, at = (_U32.unpack_from(raw)[0], 4) if wide else (raw[0], 1)
    if count > len(raw):  # each takes a byte at least
        raise CodecError("E_AMQP_DECODE", "more elements than bytes", position=0)
    found = []
    for _ in range(count):
        value, at = _value(raw, at, depth + 1)
        found.append(value)
    if at != len(raw):
        raise CodecError("E_AMQP_DECODE", "bytes behind the last element", position=at)
    if not is_map:
        return found
    if count % 2:
        raise CodecError("E_AMQP_DECODE", "a map with a key that has no value", position=0)
    pairs = list(zip(found[::2], found[1::2], strict=True))
    try:
        return dict(pairs)
    except TypeError:
        return Pairs(pairs)


def _array(raw: bytes, wide: int, depth: int) -> Array:
    _check_depth(depth, 0)
    count, at = (_U32.unpack_from(raw)[0], 4) if wide else (raw[0], 1)
    described, descriptor = raw[at] == _DESCRIBED, None
    if described:
        descriptor, at = _value(raw, at + 1, depth + 1)
    code, at = raw[at], at + 1
    if count > (EMPTY_ELEMENTS_MAX if 0x40 <= code < 0x50 else len(raw)):
        raise CodecError("E_AMQP_DECODE", "more elements than bytes", position=0)
    if code not in _FIXED and code != 0x56 and code not in (0xB0, 0xB1, 0xB3, 0xD0, 0xD1, 0xF0) and code not in _CODES:
        raise CodecError("E_AMQP_DECODE", f"unknown constructor 0x{code:02x}", position=at - 1)
    elements = []
    for _ in range(count):
        value, at = _of(code, raw, at, depth + 1)
        elements.append(value)
    if at != len(raw):
        raise CodecError("E_AMQP_DECODE", "bytes behind the last element", position=at)
    return Array(TypeCode(_CODES.get(code, code)), tuple(elements), descriptor, described)


def _check_depth(depth: int, at: int) -> None:
    if depth >= DEPTH_MAX:
        raise CodecError("E_AMQP_DECODE", "nested too deeply", position=at)
