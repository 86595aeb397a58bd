"""The few parts of docs/wire.md that programs are made of: varints, names, values and lists, written and read.

>>> put_value(-3).hex(), Cursor(bytes.fromhex("0205")).value()
('0205', -3)
"""

import math
import struct
from collections.abc import Iterable

from tidings.errors import CodecError
from tidings.model.values import Value

_FALSE, _TRUE, _INT, _FLOAT, _STRING, _BYTES, _LIST = range(7)
_FLOAT_FORMAT = struct.Struct("<d")


def put_varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def put_name(name: str) -> bytes:
    encoded = name.encode()
    return bytes((len(encoded),)) + encoded


def put_value(value: Value) -> bytes:
    match value:
        case bool():
            return bytes((_TRUE if value else _FALSE,))
        case int():
            return bytes((_INT,)) + put_varint(value << 1 if value >= 0 else ~(value << 1))
        case float():
            return bytes((_FLOAT,)) + _FLOAT_FORMAT.pack(value)
        case str():
            encoded = value.encode()
            return bytes((_STRING,)) + put_varint(len(encoded)) + encoded
        case bytes():
            return bytes((_BYTES,)) + put_varint(len(value)) + value


def put_list(values: Iterable[Value]) -> bytes:
    encoded = [put_value(value) for value in values]
    return bytes((_LIST,)) + put_varint(len(encoded)) + b"".join(encoded)


class Cursor:
    """Reads from the start to the end and not beyond; a CodecError says what is wrong, and where."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0

    @property
    def done(self) -> bool:
        return self.position == len(self.data)

    def take(self, size: int) -> bytes:
        start = self.position
        if size > len(self.data) - start:
            raise refused("E_CODEC_TRUNCATED", "ends too early", len(self.data))
        self.position = start + size
        return self.data[start : self.position]

    def byte(self) -> int:
        return self.take(1)[0]

    def varint(self) -> int:
        start, number, shift = self.position, 0, 0
        while True:
            byte = self.byte()
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift > 63:
                raise refused("E_CODEC_VARINT", "varint above 64 bits", start)
        if number >> 64 or (byte == 0 and shift):
            raise refused("E_CODEC_VARINT", "varint above 64 bits or not in its shortest form", start)
        return number

    def text(self, size: int) -> str:
        start = self.position
        try:
            return self.take(size).decode()
        except UnicodeDecodeError as error:
            raise refused("E_CODEC_UTF8", "text is not UTF-8", start + error.start) from None

    def name(self) -> str:
        start = self.position
        size = self.byte()
        if size == 0:
            raise refused("E_CODEC_NAME", "an empty name", start)
        return self.text(size)

    def value(self) -> Value:
        start = self.position
        match self.byte():
            case 0 | 1 as truth:
                return truth == _TRUE
            case 2:
                number = self.varint()
                return ~(number >> 1) if number & 1 else number >> 1
            case 3:
                (real,) = _FLOAT_FORMAT.unpack(self.take(8))
                if math.isnan(real):
                    raise refused("E_CODEC_NAN", "NaN is not a value", start + 1)
                return float(real)
            case 4:
                return self.text(self.varint())
            case 5:
                return self.take(self.varint())
        raise refused("E_CODEC_TYPE", "not the type of a value", start)

    def string(self) -> str:
        self._expect(_STRING)
        return self.text(self.varint())

    def values(self) -> tuple[Value, ...]:
        self._expect(_LIST)
        count = self.varint()
        return tuple([self.value() for _ in range(count)])  # ends with the data at the latest

    def _expect(self, wanted: int) -> None:
        start = self.position
        if self.byte() != wanted:
            raise refused("E_CODEC_TYPE", "another type of value has no place here", start)


def refused(code: str, reason: str, position: int) -> CodecError:
    return CodecError(code, reason, position=position)
