"""Control messages as bytes (docs/wire.md, "Control messages"): one number, then the fields in the order of the record.

`LAYOUTS` gives each record its number and the kind of each field; encoder and decoder both read it. The decoder
refuses whatever the encoder would not write: longer varints, numbers out of range, counts that the remaining bytes
cannot hold, bytes left over. Memory is bounded by the input, since every counted item takes at least one byte.

>>> decode(encode(LinkPing(1_000_000)))
LinkPing(sent_us=1000000)
>>> decode(b"\\x05\\x80\\x00")
Traceback (most recent call last):
    ...
tidings.errors.CodecError: E_CONTROL_VARINT at 1: a varint is too long
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any, cast

from tidings.errors import CodecError, UsageError
from tidings.model.codec import decode_predicate, encode_predicate
from tidings.model.predicate import Predicate
from tidings.model.reader import Reader, put_varint
from tidings.overlay.link.greeting import Goodbye, Greeting, LinkPing, Pong, Refuse, Welcome
from tidings.routing.control.messages import (
    Congested,
    Control,
    Datagram,
    FloodAck,
    FloodItem,
    FloodSummary,
    Known,
    SchemeMessage,
    StoreMarks,
    Taken,
    VectorRequest,
    VectorRoute,
    VectorUpdate,
    Version,
)

CONTROL_BYTES_MAX = 16 << 20
SCHEME_BYTES_MAX = 2 << 30  # of a SchemeMessage, as a link carries: it may hold the longest message of a client
TEXT_BYTES_MAX = 1024


@dataclass(frozen=True)
class Field:
    """Encoder and decoder of one field; `name` is its name in the documentation."""

    name: str
    put: Callable[[bytearray, Any], None]
    get: Callable[[Reader], Any]


def _number(name: str, limit: int) -> Field:
    def put(out: bytearray, value: int) -> None:
        if not 0 <= value <= limit:
            raise UsageError("E_CONTROL_RANGE", f"{value} is out of range; valid are 0 to {limit}")
        put_varint(out, value)

    return Field(name, put, lambda reader: reader.varint(limit))


def _put_flag(out: bytearray, value: bool) -> None:
    out.append(1 if value else 0)


def _get_flag(reader: Reader) -> bool:
    return reader.varint(1) == 1


def _put_bytes(out: bytearray, value: bytes) -> None:
    put_varint(out, len(value))
    out += value


def _put_text(out: bytearray, value: str) -> None:
    _put_bytes(out, value.encode()[:TEXT_BYTES_MAX].decode(errors="ignore").encode())  # reasons may be long: cut


def _get_text(reader: Reader) -> str:
    return reader.text(reader.varint(TEXT_BYTES_MAX), "a text")


def _get_predicate(reader: Reader) -> Predicate:
    data = reader.counted(SCHEME_BYTES_MAX)
    start = reader.position - len(data)
    try:
        return decode_predicate(data)
    except CodecError as error:  # its position counts from the predicate's first byte
        raise CodecError(error.code, error.reason, position=start + (error.position or 0)) from None


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
BYTES = Field("bytes", _put_bytes, lambda reader: reader.counted(SCHEME_BYTES_MAX))
PREDICATE = Field("predicate", lambda out, value: _put_bytes(out, encode_predicate(value)), _get_predicate)
VERSION = _group("version", Version, (U64, U64))
PARAMETERS = many("parameters", _group("parameter", lambda name, value: (name, value), (TEXT, TEXT)))
KNOWN = many("known", _group("known", Known, (BYTE, U32, VERSION)))
ROUTES = many("routes", _group("route", VectorRoute, (U32, VERSION, U32)))
TAGS = many("tags", U64)
ROUTERS = many("routers", U32)

Layouts = Mapping[type, tuple[int, tuple[Field, ...]]]
LAYOUTS: Layouts = {
    Greeting: (1, (TEXT, U32, U64, U32, U32, PARAMETERS)),
    Welcome: (2, ()),
    Refuse: (3, (TEXT, TEXT)),
    Goodbye: (4, (TEXT,)),
    LinkPing: (5, (U64,)),
    Pong: (6, (U64,)),
    FloodItem: (16, (BYTE, U32, VERSION, U32, FLAG, BYTES)),
    FloodAck: (17, (BYTE, U32, VERSION)),
    FloodSummary: (18, (KNOWN, FLAG)),
    VectorUpdate: (32, (ROUTES, FLAG)),
    VectorRequest: (33, (U32, VERSION, BYTE)),
    SchemeMessage: (48, (BYTE, BYTES)),
    Taken: (64, (TAGS,)),
    Datagram: (65, (U32, U32, BYTE, BYTES)),
    StoreMarks: (66, (U64, U64)),
    Congested: (67, (ROUTERS,)),
}
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
    return cast("Control", decode_record(_BY_NUMBER, data, "control message", limit))


def by_number(layouts: Layouts) -> dict[int, tuple[type, tuple[Field, ...]]]:
    return {number: (kind, layout) for kind, (number, layout) in layouts.items()}


_BY_NUMBER = by_number(LAYOUTS)


def encode_record(layouts: Layouts, message: Any) -> bytes:
    """A record as its number and its fields in order."""
    number, layout = layouts[type(message)]
    out = bytearray((number,))
    for one, part in zip(fields(message), layout, strict=True):
        part.put(out, getattr(message, one.name))
    return bytes(out)


def decode_record(
    numbers: Mapping[int, tuple[type, tuple[Field, ...]]], data: bytes, what: str, limit: int = SCHEME_BYTES_MAX
) -> Any:
    """The inverse of `encode_record`; `what` is the record's name in errors."""
    if len(data) > limit:
        raise CodecError("E_CONTROL_SIZE", f"{what} of {len(data)} bytes; the limit is {limit}", position=0)
    reader = Reader(data, family="CONTROL")
    number = reader.byte()
    if number not in numbers:
        reader.fail("UNKNOWN", f"unknown number {number} of a {what}", 0)
    kind, layout = numbers[number]
    message = kind(*[part.get(reader) for part in layout])
    reader.finish(f"the {what}")
    return message
