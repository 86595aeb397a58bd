"""Control messages as bytes (docs/wire.md, "Control messages"): one number, then the fields in the order of the record.

`LAYOUTS` gives each record its number and the kind of each field; encoder and decoder both read it. The decoder
refuses whatever the encoder would not write: longer varints, numbers out of range, counts that the remaining bytes
cannot hold, bytes left over. Memory is bounded by the input, since every counted item takes at least one byte.

>>> decode(encode(Ping(1_000_000)))
Ping(sent_us=1000000)
>>> decode(b"\\x05\\x80\\x00")
Traceback (most recent call last):
    ...
tidings.errors.CodecError: E_CONTROL_VARINT at 2: a varint in more bytes than it needs
"""

from collections.abc import Callable
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any, cast

from tidings.errors import CodecError, UsageError
from tidings.overlay.link.greeting import Goodbye, Greeting, LinkCredit, LinkPing, Pong, Refuse, Welcome
from tidings.routing.control.messages import (
    Control,
    Datagram,
    FloodAck,
    FloodItem,
    FloodSummary,
    Known,
    SchemeMessage,
    Taken,
    VectorRequest,
    VectorRoute,
    VectorUpdate,
    Version,
)

CONTROL_BYTES_MAX = 16 << 20
SCHEME_BYTES_MAX = 2 << 30  # of a SchemeMessage, as a link carries: it may hold the longest message of a client
TEXT_BYTES_MAX = 1024


def put_varint(out: bytearray, value: int) -> None:
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


class ControlReader:
    """A cursor that checks bounds before it reads."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def fail(self, code: str, reason: str, at: int | None = None) -> CodecError:
        return CodecError(f"E_CONTROL_{code}", reason, position=self.at if at is None else at)

    def byte(self) -> int:
        if self.at >= len(self.data):
            raise self.fail("SHORT", "the message ends here")
        self.at += 1
        return self.data[self.at - 1]

    def varint(self, limit: int) -> int:
        start, value, shift = self.at, 0, 0
        if start < len(self.data) and self.data[start] <= min(limit, 0x7F):  # most are one byte long
            self.at += 1
            return self.data[start]
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift > 63:
                raise self.fail("RANGE", "a varint beyond 64 bits", start)
        if byte == 0 and shift:
            raise self.fail("VARINT", "a varint in more bytes than it needs", self.at - 1)
        if value > limit:
            raise self.fail("RANGE", f"{value} is above {limit}", start)
        return value

    def take(self, limit: int) -> bytes:
        """Counted bytes."""
        start = self.at
        size = self.varint(2**64 - 1)
        if size > limit:
            raise self.fail("RANGE", f"{size} bytes where {limit} are allowed", start)
        if size > len(self.data) - self.at:
            raise self.fail("SHORT", f"{size} bytes announced, {len(self.data) - self.at} left", start)
        self.at += size
        return self.data[self.at - size : self.at]

    def count(self) -> int:
        start = self.at
        count = self.varint(2**64 - 1)
        if count > len(self.data) - self.at:
            raise self.fail("SHORT", f"{count} items announced, {len(self.data) - self.at} bytes left", start)
        return count


@dataclass(frozen=True)
class Field:
    """How one field is written and read; `name` is what the documentation calls it."""

    name: str
    put: Callable[[bytearray, Any], None]
    get: Callable[[ControlReader], Any]


def _number(name: str, limit: int) -> Field:
    def put(out: bytearray, value: int) -> None:
        if not 0 <= value <= limit:
            raise UsageError("E_CONTROL_RANGE", f"{value} is not within 0 and {limit}")
        put_varint(out, value)

    return Field(name, put, lambda reader: reader.varint(limit))


def _put_flag(out: bytearray, value: bool) -> None:
    out.append(1 if value else 0)


def _get_flag(reader: ControlReader) -> bool:
    return reader.varint(1) == 1


def _put_bytes(out: bytearray, value: bytes) -> None:
    put_varint(out, len(value))
    out += value


def _put_text(out: bytearray, value: str) -> None:
    _put_bytes(out, value.encode()[:TEXT_BYTES_MAX].decode(errors="ignore").encode())  # reasons may be long: cut


def _get_text(reader: ControlReader) -> str:
    data = reader.take(TEXT_BYTES_MAX)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        at = reader.at - len(data) + error.start
        raise reader.fail("TEXT", "not UTF-8", at) from None


def _group(name: str, make: Callable[..., Any], parts: tuple[Field, ...]) -> Field:
    def put(out: bytearray, value: Any) -> None:
        for part, item in zip(parts, value, strict=True):
            part.put(out, item)

    return Field(name, put, lambda reader: make(*[part.get(reader) for part in parts]))


def many(name: str, item: Field) -> Field:
    """A varint count, and as many items."""

    def put(out: bytearray, value: Any) -> None:
        put_varint(out, len(value))
        for one in value:
            item.put(out, one)

    return Field(name, put, lambda reader: tuple([item.get(reader) for _ in range(reader.count())]))


BYTE = _number("u8", 0xFF)
U32 = _number("u32", 0xFFFF_FFFF)
U64 = _number("u64", 2**64 - 1)
FLAG = Field("flag", _put_flag, _get_flag)
TEXT = Field("text", _put_text, _get_text)
BYTES = Field("bytes", _put_bytes, lambda reader: reader.take(SCHEME_BYTES_MAX))
VERSION = _group("version", Version, (U64, U64))
PARAMETERS = many("parameters", _group("parameter", lambda name, value: (name, value), (TEXT, TEXT)))
KNOWN = many("known", _group("known", Known, (BYTE, U32, VERSION)))
ROUTES = many("routes", _group("route", VectorRoute, (U32, VERSION, U32)))
TAGS = many("tags", U64)

LAYOUTS: dict[type, tuple[int, tuple[Field, ...]]] = {
    Greeting: (1, (TEXT, U32, U64, U32, U32, PARAMETERS)),
    Welcome: (2, ()),
    Refuse: (3, (TEXT, TEXT)),
    Goodbye: (4, (TEXT,)),
    LinkPing: (5, (U64,)),
    Pong: (6, (U64,)),
    LinkCredit: (7, (U64,)),
    FloodItem: (16, (BYTE, U32, VERSION, U32, FLAG, BYTES)),
    FloodAck: (17, (BYTE, U32, VERSION)),
    FloodSummary: (18, (KNOWN, FLAG)),
    VectorUpdate: (32, (ROUTES, FLAG)),
    VectorRequest: (33, (U32, VERSION, BYTE)),
    SchemeMessage: (48, (BYTE, BYTES)),
    Taken: (64, (TAGS,)),
    Datagram: (65, (U32, U32, BYTE, BYTES)),
}
_BY_NUMBER = {number: (kind, layout) for kind, (number, layout) in LAYOUTS.items()}
_SCHEME_MESSAGE = bytes((LAYOUTS[SchemeMessage][0],))
# Precomputed, because a simulation encodes millions of these.
_PLANS = {
    kind: (number, tuple((attrgetter(f.name), part.put) for f, part in zip(fields(kind), layout, strict=True)))
    for kind, (number, layout) in LAYOUTS.items()
}


def encode(message: Control) -> bytes:
    number, plan = _PLANS[type(message)]
    out = bytearray((number,))
    for get, put in plan:
        put(out, get(message))
    return bytes(out)


def decode(data: bytes) -> Control:
    limit = SCHEME_BYTES_MAX if data[:1] == _SCHEME_MESSAGE else CONTROL_BYTES_MAX
    if len(data) > limit:
        raise CodecError("E_CONTROL_SIZE", f"{len(data)} bytes; at most {limit}", position=0)
    reader = ControlReader(data)
    number = reader.byte()
    if number not in _BY_NUMBER:
        raise reader.fail("UNKNOWN", f"no control message has the number {number}", 0)
    kind, layout = _BY_NUMBER[number]
    message = kind(*[part.get(reader) for part in layout])
    if reader.at != len(data):
        raise reader.fail("LONG", f"{len(data) - reader.at} bytes after the end")
    return cast("Control", message)
