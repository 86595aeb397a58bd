"""Hermes' messages as bytes: the payload of a SchemeMessage, and of requests that Pan routes, by the rules of
tidings.routing.control.codec.

>>> decode(encode(Settled("Trade", b"id")))
Settled(type='Trade', tag=b'id')
>>> decode(b"\\x04\\x01")
Traceback (most recent call last):
    ...
tidings.errors.CodecError: E_CONTROL_TRUNCATED at 2: a text does not fit
"""

from typing import Any, TypeVar, cast

from tidings.errors import CodecError, TidingsError
from tidings.model.event_type import LEVELS_MAX, AttributeType, EventType
from tidings.model.reader import Reader, put_varint
from tidings.routing.control.codec import (
    BYTES,
    FLAG,
    PREDICATE,
    TEXT,
    U32,
    U64,
    Field,
    Layouts,
    by_number,
    decode_record,
    encode_record,
    many,
)
from tidings.routing.hermes.messages import (
    EchoEvent,
    Estate,
    HermesMessage,
    HermesPublication,
    InterestKind,
    Settled,
    Tell,
    TypeAnswer,
    TypeRequest,
    Untell,
    Verb,
)

SCHEME = 3  # the number of this scheme in SchemeMessage
ATTRIBUTE_TYPES = tuple(AttributeType)  # their numbers are their places
OPTIONAL = 128  # of the byte of an attribute
VERSION_MAX = 2**32 - 1
T = TypeVar("T")


def _number(name: str, kind: type) -> Field:
    """A number that stands for one of an enumeration."""

    def get(reader: Reader) -> Any:
        number = reader.byte()
        try:
            return kind(number)
        except ValueError:
            reader.fail("RANGE", f"unknown {kind.__name__} {number}", reader.position - 1)

    return Field(name, lambda out, value: out.append(value), get)


def _put_types(out: bytearray, chain: tuple[EventType, ...]) -> None:
    put_varint(out, len(chain))
    for one in chain:
        TEXT.put(out, one.name)
        TEXT.put(out, one.parent or "")
        put_varint(out, len(one.attributes) + (one.version > 1))
        if one.version > 1:
            TEXT.put(out, "")
            put_varint(out, one.version)
        for name, kind in one.attributes.items():
            TEXT.put(out, name)
            out.append(ATTRIBUTE_TYPES.index(kind) | (OPTIONAL if name in one.optional else 0))


def _get_type(reader: Reader) -> EventType:
    start, name, parent = reader.position, TEXT.get(reader), TEXT.get(reader)
    attributes: dict[str, AttributeType] = {}
    optional, version = set[str](), 1
    for place in range(reader.count()):
        attribute = TEXT.get(reader)
        if not attribute and not place:
            version = reader.varint(VERSION_MAX)
            if version < 2:
                reader.fail("RANGE", f"version {version} is not written", reader.position - 1)
            continue
        byte = reader.byte()
        number = byte & ~OPTIONAL
        if byte & OPTIONAL:
            optional.add(attribute)
        if number >= len(ATTRIBUTE_TYPES):
            reader.fail("RANGE", f"unknown attribute type {number}", reader.position - 1)
        if attribute in attributes:
            reader.fail("RANGE", f"attribute {attribute!r} occurs twice", reader.position - 1)
        attributes[attribute] = ATTRIBUTE_TYPES[number]
    try:
        return EventType(name, parent or None, attributes, frozenset(optional), version)
    except TidingsError as error:
        reader.fail("RANGE", str(error), start)


def _get_types(reader: Reader) -> tuple[EventType, ...]:
    start, count = reader.position, reader.count()
    if count > LEVELS_MAX:
        reader.fail("LIMIT", f"{count} levels of types, at most {LEVELS_MAX} are possible", start)
    return tuple([_get_type(reader) for _ in range(count)])


TYPES = Field("types", _put_types, _get_types)
KIND, VERB = _number("kind", InterestKind), _number("verb", Verb)
CHAINS, ROUTERS = many("chains", TYPES), many("routers", U32)

LAYOUTS: Layouts = {
    Tell: (1, (TEXT, KIND, PREDICATE, U64)),
    Untell: (2, (TEXT, KIND, PREDICATE, FLAG)),
    HermesPublication: (3, (TEXT, FLAG, FLAG, FLAG, BYTES, BYTES)),
    Settled: (4, (TEXT, BYTES)),
    EchoEvent: (5, (TEXT, U64, FLAG)),
    Estate: (6, (TEXT, TYPES, CHAINS, ROUTERS)),
}
REQUESTS: Layouts = {TypeRequest: (1, (VERB, TEXT, TYPES, U32)), TypeAnswer: (2, (TYPES, TEXT, TEXT))}


_BY_NUMBER, _REQUESTS_BY_NUMBER = by_number(LAYOUTS), by_number(REQUESTS)


def encode(message: HermesMessage | TypeRequest | TypeAnswer) -> bytes:
    return encode_record({**LAYOUTS, **REQUESTS}, message)


def decode(data: bytes) -> HermesMessage:
    return cast("HermesMessage", decode_record(_BY_NUMBER, data, "message of Hermes"))


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
    reader = Reader(data, family="CONTROL")
    chain = _get_types(reader)
    reader.finish("the message")
    return chain


def _expect(data: bytes, kind: type[T]) -> T:
    message = decode_record(_REQUESTS_BY_NUMBER, data, "request of Hermes")
    if not isinstance(message, kind):
        raise CodecError("E_CONTROL_UNKNOWN", f"unexpected {type(message).__name__}", position=0)
    return message
