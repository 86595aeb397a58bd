"""Primitives of all wire and store formats: varints, texts and values, with bounds checked before every read.

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
U64_MAX = 2**64 - 1
_DOUBLE = struct.Struct("<d")
_SCALARS = (FALSE, TRUE, INT, FLOAT, STRING, BYTES)
ATTRIBUTE = (*_SCALARS, TEXT)


def put_varint(out: bytearray, number: int) -> None:
    """Append an unsigned LEB128."""
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)


def varint(number: int) -> bytes:
    """Unsigned LEB128."""
    out = bytearray()
    put_varint(out, number)
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
    """Reads forward through `data[position:end]`; errors are CodecErrors at the offset that docs/wire.md specifies.

    `family` is the first part of their codes: CODEC for clients' formats, CONTROL for those between brokers.
    """

    def __init__(self, data: bytes, position: int = 0, end: int | None = None, family: str = "CODEC") -> None:
        self.data = data
        self.position = position
        self.end = len(data) if end is None else end
        self.family = family

    def fail(self, code: str, reason: str, position: int | None = None) -> NoReturn:
        at = self.position if position is None else position
        raise CodecError(f"E_{self.family}_{code}", reason, position=at)

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

    def byte(self, what: str = "a byte") -> int:
        at = self.position
        if at >= self.end:
            self.need(1, what)
        self.position = at + 1
        return self.data[at]

    def counted(self, limit: int, what: str = "a field") -> bytes:
        """Bytes after their number, which is at most `limit`."""
        return self.take(self.varint(limit), what)

    def count(self) -> int:
        """The number of items that follow, each of at least one byte."""
        count = self.varint()
        self.need(count, f"a list of {count} items")
        return count

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

    def varint(self, limit: int = U64_MAX) -> int:
        start = self.position
        if start < self.end and self.data[start] <= min(limit, 0x7F):  # most have one byte
            self.position = start + 1
            return self.data[start]
        number = 0
        for place in range(VARINT_BYTES_MAX):
            byte = self.byte("a varint")
            number |= (byte & 0x7F) << 7 * place
            if byte < 0x80:
                if (byte == 0 and place) or number > U64_MAX:
                    break
                self.demand(number <= limit, "RANGE", f"{number} is above {limit}", start)
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
