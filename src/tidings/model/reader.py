"""Primitives of the wire formats: varints, texts and values, with bounds checked before every read.

>>> Reader(value_of(300)).value(), varint(300)
(300, b'\\xac\\x02')
"""

import builtins
import struct
from collections.abc import Iterable
from typing import NoReturn

from tidings.errors import CodecError
from tidings.model.values import Untyped, Value, canonical, sort_key

FALSE, TRUE, INT, FLOAT, STRING, BYTES, LIST, TEXT = range(8)
VARINT_BYTES_MAX = 10
_DOUBLE = struct.Struct("<d")
_SCALARS = (FALSE, TRUE, INT, FLOAT, STRING, BYTES)
ATTRIBUTE = (*_SCALARS, TEXT)


def varint(number: int) -> bytes:
    """Unsigned LEB128."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def value_of(value: Value) -> bytes:
    match value:
        case bool():
            return bytes((TRUE if value else FALSE,))
        case int():
            return bytes((INT,)) + varint(((value << 1) ^ (value >> 63)) & 0xFFFFFFFFFFFFFFFF)
        case float():
            return bytes((FLOAT,)) + _DOUBLE.pack(value)
        case str():
            text = value.encode()
            return bytes((TEXT if type(value) is Untyped else STRING,)) + varint(len(text)) + text
        case bytes():
            return bytes((BYTES,)) + varint(len(value)) + value


def list_of(values: Iterable[Value]) -> bytes:
    rows = [value_of(one) for one in values]
    return bytes((LIST,)) + varint(len(rows)) + b"".join(rows)


class Reader:
    """Reads forward through `data[position:end]`; every fault is a CodecError at the offset docs/wire.md names."""

    def __init__(self, data: bytes, position: int = 0, end: int | None = None) -> None:
        self.data = data
        self.position = position
        self.end = len(data) if end is None else end

    def fail(self, code: str, reason: str, position: int) -> NoReturn:
        raise CodecError(f"E_CODEC_{code}", reason, position=position)

    def demand(self, right: bool, code: str, reason: str, position: int) -> None:
        if not right:
            self.fail(code, reason, position)

    def need(self, size: int, what: str) -> None:
        if size > self.end - self.position:
            self.fail("TRUNCATED", f"{what} does not fit", self.end)

    def finish(self, what: str) -> None:
        self.demand(self.position == self.end, "TRAILING", f"bytes after the end of {what}", self.position)

    def take(self, size: int, what: str) -> bytes:
        self.need(size, what)
        start, self.position = self.position, self.position + size
        return self.data[start : self.position]

    def text(self, size: int, what: str) -> str:
        start = self.position
        try:
            return self.take(size, what).decode()
        except UnicodeDecodeError as error:
            self.fail("UTF8", f"{what} is not UTF-8", start + error.start)

    def name(self) -> str:
        """An attribute's name, after its length in one byte."""
        at = self.position
        size = self.take(1, "a name's length")[0]
        self.demand(size > 0, "NAME", "a name is empty", at)
        return self.text(size, "a name")

    def varint(self) -> int:
        start = self.position
        number = 0
        for place in range(VARINT_BYTES_MAX):
            byte = self.take(1, "a varint")[0]
            number |= (byte & 0x7F) << 7 * place
            if byte < 0x80:
                if (byte == 0 and place) or number >> 64:
                    break
                return number
        return self.fail("VARINT", "a varint is too long", start)

    def ascending(self, previous: bytes, start: int) -> bytes:
        """The bytes read since `start`, which must come after those of the item before."""
        item = self.data[start : self.position]
        self.demand(previous < item, "ORDER", "not above the item before", start)
        return item

    def value(self, types: tuple[int, ...] | None = None, operand: bool = False) -> Value:
        """A value of one of these types (None: neither list nor untyped); an operand must be in its one spelling."""
        at = self.position
        type_byte = self.take(1, "a value")[0]
        self.demand(type_byte in (types or _SCALARS), "TYPE", "unknown or unwanted type", at)
        match type_byte:
            case 0 | 1:
                return type_byte == TRUE
            case 2:
                zigzag = self.varint()
                return (zigzag >> 1) ^ -(zigzag & 1)
            case 3:
                return self._float(operand)
            case 4:
                return self.text(self.varint(), "a string")
            case 7:
                return Untyped(self.text(self.varint(), "a text"))
            case _:
                return self.take(self.varint(), "bytes")

    def _float(self, operand: bool) -> float:
        at = self.position
        (number,) = _DOUBLE.unpack(self.take(8, "a float"))
        self.demand(number == number, "NAN", "NaN is not a value", at)
        if operand:
            self.demand(type(canonical(number)) is float, "CANONICAL", "a whole number must be an int", at)
        return float(number)

    def list(self) -> tuple[Value, ...]:
        """The operand of IN: values in strictly ascending order."""
        at = self.position
        self.demand(self.take(1, "a value")[0] == LIST, "TYPE", "IN takes a list", at)
        values: builtins.list[Value] = []
        for _ in range(self.varint()):
            at = self.position
            value = self.value(operand=True)
            if values:
                self.demand(sort_key(values[-1]) < sort_key(value), "ORDER", "not above the value before", at)
            values.append(value)
        return tuple(values)
