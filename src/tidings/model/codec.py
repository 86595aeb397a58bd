"""The wire formats of values, messages and predicates (docs/wire.md), in plain Python.

The reference: the kernel's codec must accept and refuse the same bytes, with the same code and position. One value
has one encoding, so `decode(encode(x)) == x`, and `encode(decode(b)) == b` for every b that is accepted.

>>> from tidings.model.destination import Destination
>>> message = Message(Destination.parse("ticks.xyz"), {"price": 50}, b"body")
>>> decode_message(encode_message(message)) == message
True
>>> decode_message(encode_message(message)[:30])
Traceback (most recent call last):
    ...
tidings.errors.CodecError: E_CODEC_TRUNCATED at 30: the destination name does not fit
"""

import struct
from collections.abc import Sequence
from typing import Any

from tidings.errors import CodecError
from tidings.model.constraint import TEXT_OPS, Constraint, Op
from tidings.model.destination import Destination, name_fault
from tidings.model.message import HEADER_TYPES, PRIORITY_MAX, Message, reserved
from tidings.model.message_id import MessageId
from tidings.model.predicate import PROGRAM_BYTES_MAX, Conjunction, Predicate
from tidings.model.reader import ATTRIBUTE, INT, STRING, Reader, list_of, value_of, varint
from tidings.model.values import Value

MESSAGE_VERSION = 1
PERSISTENT, QUEUE, EXPIRES, DELAYED = 1, 2, 4, 8
ID = slice(4, 20)  # where a message has its id
NEGATED = 0x80
_FIXED = struct.Struct("<BBBB16sHHI")
_FRAME = struct.Struct("<IBBH")
_PUBLISH = struct.Struct("<I")
_HEADER_NAMES = tuple(HEADER_TYPES)
_HEADER_TYPE_BYTES = {name: STRING if kind is str else INT for name, kind in HEADER_TYPES.items()}


def encode_value(value: Value) -> bytes:
    return value_of(value)


def encode_message(message: Message) -> bytes:
    flags = PERSISTENT * message.persistent + QUEUE * message.destination.queue
    flags += EXPIRES * (message.expiration_ms is not None) + DELAYED * (message.deliver_at_ms is not None)
    attributes = {**message.headers(), **message.properties}
    parts = [_name(name) + value_of(value) for name, value in attributes.items()]
    encoded, name = b"".join(parts), message.destination.name.encode()
    fixed = (MESSAGE_VERSION, flags, message.priority, 0, bytes(message.id), len(parts), len(name), len(encoded))
    return b"".join((_FIXED.pack(*fixed), name, encoded, message.body))


def decode_message(data: bytes) -> Message:
    reader = Reader(data)
    version, flags, priority, zero, id_bytes, count, name_length, length = _FIXED.unpack(
        reader.take(_FIXED.size, "the fixed part")
    )
    reader.demand(version == MESSAGE_VERSION, "VERSION", "version is not 1", 0)
    reader.demand(not flags & ~(PERSISTENT | QUEUE | EXPIRES | DELAYED), "FLAGS", "unknown flag", 1)
    reader.demand(priority <= PRIORITY_MAX, "PRIORITY", "priority is above 9", 2)
    reader.demand(zero == 0, "RESERVED", "the reserved byte is not 0", 3)
    reader.need(name_length, "the destination name")
    reader.need(name_length + length, "the attributes")
    destination = _destination(reader.position, reader.text(name_length, "the destination name"), bool(flags & QUEUE))
    body_start = reader.position + length
    headers, properties = _read_attributes(Reader(data, reader.position, body_start), count)
    for flag, name in ((EXPIRES, "JMSExpiration"), (DELAYED, "JMSDeliveryTime")):
        told = bool(flags & flag) == (name in headers)
        reader.demand(told, "FLAGS", f"flag {flag} must tell whether {name} is set", 1)
    return Message(
        destination,
        properties,
        data[body_start:],
        MessageId.from_bytes(id_bytes),
        persistent=bool(flags & PERSISTENT),
        priority=priority,
        timestamp_ms=headers.get("JMSTimestamp"),
        expiration_ms=headers.get("JMSExpiration"),
        correlation_id=headers.get("JMSCorrelationID"),
        reply_to=headers.get("JMSReplyTo"),
        type=headers.get("JMSType"),
        deliver_at_ms=headers.get("JMSDeliveryTime"),
    )


def _name(name: str) -> bytes:
    encoded = name.encode()
    return bytes((len(encoded),)) + encoded


def _destination(position: int, name: str, queue: bool) -> Destination:
    fault = ("", 0, "a destination name is empty") if not name else name_fault(name)
    if fault:
        _, at, reason = fault
        raise CodecError("E_CODEC_DESTINATION", reason, position=position + len(name[:at].encode()))
    return Destination(name, queue)


def _read_attributes(reader: Reader, count: int) -> tuple[dict[str, Any], dict[str, Value]]:
    """(header fields, properties), each in the order of the bytes."""
    headers: dict[str, Any] = {}
    properties: dict[str, Value] = {}
    least = 0  # header fields before this one are late
    for _ in range(count):
        name = reader.name()
        at = reader.position - len(name.encode())
        if name not in HEADER_TYPES:
            reader.demand(not reserved(name), "NAME", "this name is reserved", at)
            reader.demand(name not in properties, "DUPLICATE", "the name occurs twice", at)
            least = len(_HEADER_NAMES)
            properties[name] = reader.value(ATTRIBUTE)
            continue
        reader.demand(name not in headers, "DUPLICATE", "the name occurs twice", at)
        place = _HEADER_NAMES.index(name)
        reader.demand(place >= least, "ORDER", "a header field stands too late", at)
        least = place + 1
        headers[name] = _read_header(reader, name)
    reader.finish("the attributes")
    return headers, properties


def _read_header(reader: Reader, name: str) -> Any:
    at = reader.position
    value: Any = reader.value((_HEADER_TYPE_BYTES[name],))
    if name == "JMSReplyTo":
        text_at = reader.position - len(value.encode())
        fine = value.startswith(("topic:", "queue:"))
        reader.demand(fine, "DESTINATION", "neither topic: nor queue:", text_at)
        return _destination(text_at + len("topic:"), value[len("topic:") :], value.startswith("queue:"))
    if _HEADER_TYPE_BYTES[name] == INT:
        reader.demand(value >= (name != "JMSTimestamp"), "RANGE", "a time is too small", at)
    return value


def encode_predicate(predicate: Predicate) -> bytes:
    program = predicate.residual or b""
    rows = sorted(map(_encode_conjunction, predicate.conjunctions))
    return b"".join((varint(len(rows)), *rows, varint(len(program)), program))


def _encode_conjunction(conjunction: Sequence[Constraint]) -> bytes:
    return b"".join((varint(len(conjunction)), *sorted(map(encode_constraint, conjunction))))


def encode_constraint(constraint: Constraint) -> bytes:
    head = bytes((constraint.op | NEGATED * constraint.negated,)) + _name(constraint.name)
    operand = constraint.value
    if operand is None:
        return head
    return head + (list_of(operand) if isinstance(operand, tuple) else value_of(operand))


def decode_predicate(data: bytes) -> Predicate:
    reader = Reader(data)
    conjunctions: list[Conjunction] = []
    previous = b""
    for _ in range(reader.varint()):
        at = reader.position
        conjunctions.append(_read_conjunction(reader))
        previous = reader.ascending(previous, at)
    at = reader.position
    length = reader.varint()
    reader.demand(length <= PROGRAM_BYTES_MAX, "LIMIT", "the program is too long", at)
    program = reader.take(length, "the program")
    reader.finish("the predicate")
    return Predicate(conjunctions, program)


def _read_conjunction(reader: Reader) -> Conjunction:
    constraints: list[Constraint] = []
    previous = b""
    for _ in range(reader.varint()):
        at = reader.position
        constraints.append(_read_constraint(reader))
        previous = reader.ascending(previous, at)
    return Conjunction(constraints)


def _read_constraint(reader: Reader) -> Constraint:
    at = reader.position
    byte = reader.take(1, "an operator")[0]
    number, negated = byte & ~NEGATED, bool(byte & NEGATED)
    known = Op.EQ <= number <= Op.MISSING and not (negated and number >= Op.EXISTS)
    reader.demand(known, "OPERATOR", "unknown operator", at)
    op, name = Op(number), reader.name()
    if op in (Op.EXISTS, Op.MISSING):
        return Constraint(name, op)
    if op is Op.IN:
        return Constraint(name, op, reader.list(), negated)
    types = (STRING,) if op in TEXT_OPS else None
    return Constraint(name, op, reader.value(types, operand=True), negated)


def encode_frame(type: int, payload: bytes, flags: int = 0, session: int = 0) -> bytes:
    return _FRAME.pack(len(payload), type, flags, session) + payload


def encode_publish(receipt: int, message: Message) -> bytes:
    return _PUBLISH.pack(receipt) + encode_message(message)
