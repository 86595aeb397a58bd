"""Hermes' messages as bytes: the payload of a SchemeMessage, and of requests that Pan routes, by the rules of
tidings.routing.control.codec.

>>> decode(encode(Settled("Trade", b"id")))
Settled(type='Trade', tag=b'id')
>>> decode(b"\\x04\\x01")
Traceback (most recent call last):
    ...
tidings.errors.CodecError: E_CONTROL_SHORT at 1: 1 bytes announced, 0 left
"""

from dataclasses import fields
from typing import Any, TypeVar, cast

from tidings.errors import CodecError, TidingsError
from tidings.model.codec import decode_predicate, encode_predicate
from tidings.model.event_type import AttributeType, EventType
from tidings.model.predicate import Predicate
from tidings.routing.control.codec import (
    BYTES,
    FLAG,
    SCHEME_BYTES_MAX,
    TEXT,
    U32,
    U64,
    ControlReader,
    Field,
    many,
    put_varint,
)
from tidings.routing.hermes.messages import (
    EchoEvent,
    Estate,
    HermesMessage,
    InterestKind,
    Publication,
    Settled,
    Tell,
    TypeAnswer,
    TypeRequest,
    Untell,
    Verb,
)

SCHEME = 3  # the number of this scheme in SchemeMessage
ATTRIBUTE_TYPES = tuple(AttributeType)  # their numbers are their places
T = TypeVar("T")


def _get_filter(reader: ControlReader) -> Predicate:
    data = BYTES.get(reader)
    start = reader.at - len(data)
    try:
        return decode_predicate(data)
    except CodecError as error:  # its position counts from the predicate's first byte
        raise CodecError(error.code, error.reason, position=start + (error.position or 0)) from None


def _number(kind: type) -> Field:
    """A number that stands for one of an enumeration."""

    def get(reader: ControlReader) -> Any:
        number = reader.byte()
        try:
            return kind(number)
        except ValueError:
            raise reader.fail("RANGE", f"there is no {kind.__name__} {number}", reader.at - 1) from None

    return Field(kind.__name__.lower(), lambda out, value: out.append(value), get)


def _put_types(out: bytearray, chain: tuple[EventType, ...]) -> None:
    put_varint(out, len(chain))
    for one in chain:
        TEXT.put(out, one.name)
        TEXT.put(out, one.parent or "")
        put_varint(out, len(one.attributes))
        for name, kind in one.attributes.items():
            TEXT.put(out, name)
            out.append(ATTRIBUTE_TYPES.index(kind))


def _get_type(reader: ControlReader) -> EventType:
    start, name, parent = reader.at, TEXT.get(reader), TEXT.get(reader)
    attributes: dict[str, AttributeType] = {}
    for _ in range(reader.count()):
        attribute, number = TEXT.get(reader), reader.byte()
        if number >= len(ATTRIBUTE_TYPES):
            raise reader.fail("RANGE", f"there is no attribute type {number}", reader.at - 1)
        if attribute in attributes:
            raise reader.fail("RANGE", f"attribute {attribute!r} is named twice", reader.at - 1)
        attributes[attribute] = ATTRIBUTE_TYPES[number]
    try:
        return EventType(name, parent or None, attributes)
    except TidingsError as error:
        raise reader.fail("RANGE", str(error), start) from None


def _get_types(reader: ControlReader) -> tuple[EventType, ...]:
    return tuple([_get_type(reader) for _ in range(reader.count())])


FILTER = Field("predicate", lambda out, value: BYTES.put(out, encode_predicate(value)), _get_filter)
TYPES = Field("types", _put_types, _get_types)
KIND, VERB = _number(InterestKind), _number(Verb)
CHAINS, ROUTERS = many("chains", TYPES), many("routers", U32)

Layouts = dict[type, tuple[int, tuple[Field, ...]]]
LAYOUTS: Layouts = {
    Tell: (1, (TEXT, KIND, FILTER, U64)),
    Untell: (2, (TEXT, KIND, FILTER, FLAG)),
    Publication: (3, (TEXT, FLAG, FLAG, FLAG, BYTES, BYTES)),
    Settled: (4, (TEXT, BYTES)),
    EchoEvent: (5, (TEXT, U64, FLAG)),
    Estate: (6, (TEXT, TYPES, CHAINS, ROUTERS)),
}
REQUESTS: Layouts = {TypeRequest: (1, (VERB, TEXT, TYPES, U32)), TypeAnswer: (2, (TYPES, TEXT, TEXT))}


def encode(message: HermesMessage | TypeRequest | TypeAnswer) -> bytes:
    number, layout = (LAYOUTS | REQUESTS)[type(message)]
    out = bytearray((number,))
    for one, part in zip(fields(message), layout, strict=True):
        part.put(out, getattr(message, one.name))
    return bytes(out)


def decode(data: bytes) -> HermesMessage:
    return cast("HermesMessage", _decode(data, LAYOUTS))


def decode_request(data: bytes) -> TypeRequest:
    return _expect(data, TypeRequest)


def decode_answer(data: bytes) -> TypeAnswer:
    return _expect(data, TypeAnswer)


def encode_types(chain: tuple[EventType, ...]) -> bytes:
    """A type after its ancestors, as the store keeps it."""
    out = bytearray()
    _put_types(out, chain)
    return bytes(out)


def decode_types(data: bytes) -> tuple[EventType, ...]:
    """
    >>> chain = (EventType("Trade", None, {"price": AttributeType.FLOAT}),)
    >>> decode_types(encode_types(chain)) == chain
    True
    """
    reader = ControlReader(data)
    chain = _get_types(reader)
    if reader.at != len(data):
        raise reader.fail("LONG", f"{len(data) - reader.at} bytes after the end")
    return chain


def _expect(data: bytes, kind: type[T]) -> T:
    message = _decode(data, REQUESTS)
    if not isinstance(message, kind):
        raise CodecError("E_CONTROL_UNKNOWN", f"{type(message).__name__} has no place here", position=0)
    return message


def _decode(data: bytes, layouts: Layouts) -> object:
    if len(data) > SCHEME_BYTES_MAX:
        raise CodecError("E_CONTROL_SIZE", f"{len(data)} bytes; at most {SCHEME_BYTES_MAX}", position=0)
    reader = ControlReader(data)
    number = reader.byte()
    found = next(((kind, layout) for kind, (known, layout) in layouts.items() if known == number), None)
    if found is None:
        raise CodecError("E_CONTROL_UNKNOWN", f"no message of Hermes has the number {number}", position=0)
    kind, layout = found
    message = kind(*[part.get(reader) for part in layout])
    if reader.at != len(data):
        raise reader.fail("LONG", f"{len(data) - reader.at} bytes after the end")
    return message
