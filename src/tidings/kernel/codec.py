"""The kernel's codec: messages, batches of them, predicates and programs between bytes and the model.

The same answers as `tidings.model.codec`, code and position of every refusal included (`hardening.contracts.codec`
tests that). What the kernel has decoded it has checked, so messages made of it are not checked again.

>>> message = Message(Destination("ticks.xyz"), {"price": 50}, b"body")
>>> decode_message(encode_message(message)) == message
True
>>> batch = MessageBatch.from_messages(encode_messages([message, message]))
>>> len(batch), batch.attributes(1)["price"], batch.attributes(1)["@topic"]
(2, 50, 'ticks.xyz')
"""

from collections.abc import Iterable
from dataclasses import fields as fields_of
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

from tidings import _kernel
from tidings._kernel import Budget
from tidings.errors import CodecError
from tidings.model.codec import encode_constraint
from tidings.model.constraint import Constraint, Op
from tidings.model.destination import Destination
from tidings.model.message import Message
from tidings.model.message_id import MessageId
from tidings.model.predicate import Predicate
from tidings.model.values import Value, kind

if TYPE_CHECKING:  # a client needs no NumPy
    import numpy as np
    from numpy.typing import NDArray

Headers: TypeAlias = tuple[str | None, str | None, str | None, int | None, int | None, int | None]
Parts: TypeAlias = tuple[bool, bool, int, bytes, str, Headers, dict[str, Value], bytes]

PAYLOAD_BYTES_MAX = 1 << 20  # of a frame, unless told otherwise
MESSAGE_BYTES_MAX = 2**32 - 1  # that its length can say: messages that are here already take no more memory
# Attributes made from a message's fixed part, as bits: which of them a batch shall show.
DERIVED_DESTINATION, DERIVED_PRIORITY, DERIVED_DELIVERY_MODE, DERIVED_TIMESTAMP, DERIVED_MESSAGE_ID = 1, 2, 4, 8, 16
DERIVED_ALL = 31

_OPS = (None, *Op)

Buffer: TypeAlias = bytes | bytearray | memoryview


encode_parts = _kernel.encode_message  # of fields that were checked before: persistent, queue, priority, id, …


def encode_message(message: Message) -> bytes:
    return _kernel.encode_message(*_parts(message))


def encode_messages(messages: Iterable[Message]) -> bytes:
    """Each message after its length as u32: what `MessageBatch.from_messages` reads."""
    return _kernel.encode_messages([_parts(message) for message in messages])


def decode_message(data: Buffer) -> Message:
    return _message(_kernel.decode_message(data))


def altered(message: Message, **fields: object) -> Message:
    """A message that was decoded, with other values for these fields; like it, it is not checked again."""
    return _unchecked({field.name: getattr(message, field.name) for field in _FIELDS} | fields)


def check_predicate(data: Buffer) -> None:
    """A CodecError unless the bytes are a predicate; its program is judged by `Program`."""
    _kernel.predicate_check(data)


def decode_predicate(data: bytes) -> Predicate:
    """As `tidings.model.codec.decode_predicate`; what the kernel has read is not checked again."""
    conjunctions, program = _kernel.predicate_parts(data)
    return Predicate([[_constraint(*one) for one in some] for some in conjunctions], program)


def _constraint(op: int, negated: bool, name: str, operand: Any) -> Constraint:
    constraint = Constraint.__new__(Constraint)
    values = operand if type(operand) is tuple else () if operand is None else (operand,)
    put = object.__setattr__
    put(constraint, "name", name)
    put(constraint, "op", _OPS[op])
    put(constraint, "value", operand)
    put(constraint, "negated", negated)
    put(constraint, "key", (name, op, negated, tuple([(int(kind(one)), one) for one in values])))
    return constraint


def holds(constraint: Constraint, value: Value | None) -> bool:
    """`constraint.holds(value)`, as the kernel sees it."""
    return _kernel.holds(encode_constraint(constraint), value)


class MessageBatch:
    """The bytes of one socket read, decoded in one call. A broken message does not stop the others."""

    def __init__(self, batch: _kernel.MessageBatch) -> None:
        self.batch = batch

    @classmethod
    def from_frames(
        cls,
        data: Buffer,
        payload_bytes_max: int = PAYLOAD_BYTES_MAX,
        stop_at_control: bool = False,
        derived: int = DERIVED_ALL,
    ) -> "MessageBatch":
        """Frames; the last may be incomplete. Told to, it stops after the first that carries no message."""
        return cls(_kernel.MessageBatch.from_frames(data, payload_bytes_max, stop_at_control, derived))

    @classmethod
    def from_messages(
        cls, data: Buffer, message_bytes_max: int = MESSAGE_BYTES_MAX, derived: int = DERIVED_ALL
    ) -> "MessageBatch":
        """Messages, each after its length as u32; the last may be incomplete."""
        return cls(_kernel.MessageBatch.from_messages(data, message_bytes_max, derived))

    @classmethod
    def from_column(
        cls,
        data: Buffer,
        ends: "NDArray[np.uint64]",
        message_bytes_max: int = MESSAGE_BYTES_MAX,
        derived: int = DERIVED_ALL,
    ) -> "MessageBatch":
        """Messages one after the other, the i-th ends at `ends[i]`: a column of a table."""
        return cls(_kernel.MessageBatch.from_column(data, ends, message_bytes_max, derived))

    def __len__(self) -> int:
        return len(self.batch)

    @property
    def broken(self) -> int:
        """Number of entries with an error."""
        return self.batch.broken

    @property
    def consumed(self) -> int:
        """Number of bytes decoded; the next decoding starts there."""
        return self.batch.consumed

    @property
    def fatal(self) -> CodecError | None:
        """The error that prevents decoding beyond `consumed`."""
        return _error(self.batch.fatal, fatal=True)

    def error(self, i: int) -> CodecError | None:
        """The error of entry i; its position counts from the message's first byte, at `offset(i)`."""
        return _error(self.batch.error(i))

    def is_message(self, i: int) -> bool:
        return self.batch.is_message(i)

    def offset(self, i: int) -> int:
        """Offset in the data of the message, or of the payload of a frame without one."""
        return self.batch.offset(i)

    def payload(self, i: int) -> bytes:
        """The message's bytes, or the payload of a frame without one."""
        return self.batch.payload(i)

    def frame(self, i: int) -> tuple[int, int, int, bytes]:
        """The frame's type, flags and session, and what stands between its header and the message."""
        return self.batch.frame(i)

    def message(self, i: int) -> Message:
        return _message(self.batch.message(i))

    def attributes(self, i: int) -> dict[str, Value]:
        """The attributes that selectors and routing see."""
        return self.batch.attributes(i)


class Program:
    """A selector in postfix form: checked once, then evaluated over batches without the GIL."""

    def __init__(self, code: Buffer) -> None:
        self._program = _kernel.Program(code)

    def evaluate(self, batch: MessageBatch) -> list[bool | None]:
        """True, False or None (unknown) for each entry; False where there is no message."""
        return [_TRUTHS[one] for one in self._program.evaluate(batch.batch)]

    def evaluate_one(self, batch: MessageBatch, i: int, budget: Budget) -> bool | None:
        """The same for one message of a batch, within a budget that may be shared; None as well if that is used up."""
        return self._program.evaluate_one(batch.batch, i, budget)


_TRUTHS = (False, True, None, False)  # the last: no message


def _error(parts: tuple[str, str, int] | None, fatal: bool = False) -> CodecError | None:
    if parts is None:
        return None
    code, reason, position = parts
    return CodecError(code, reason, position=position, fatal=fatal)


def _parts(message: Message) -> Parts:
    destination, reply_to = message.destination, message.reply_to
    headers = (
        message.correlation_id,
        message.type,
        None if reply_to is None else str(reply_to),
        message.timestamp_ms,
        message.expiration_ms,
        message.deliver_at_ms,
    )
    fixed = (message.persistent, destination.queue, message.priority, bytes(message.id), destination.name)
    return (*fixed, headers, dict(message.properties), message.body)


_destination = lru_cache(maxsize=4096)(Destination)


def _message(parts: Parts) -> Message:
    persistent, queue, priority, id_bytes, name, headers, properties, body = parts
    correlation_id, type_, reply_to, timestamp_ms, expiration_ms, deliver_at_ms = headers
    fields = {
        "destination": _destination(name, queue),
        "properties": properties,
        "body": body,
        "id": MessageId.from_bytes(id_bytes),
        "persistent": persistent,
        "priority": priority,
        "timestamp_ms": timestamp_ms,
        "expiration_ms": expiration_ms,
        "correlation_id": correlation_id,
        "reply_to": None if reply_to is None else Destination.parse(reply_to),
        "type": type_,
        "deliver_at_ms": deliver_at_ms,
    }
    return _unchecked(fields)  # the kernel has checked every field


_FIELDS = fields_of(Message)


def _unchecked(fields: dict[str, object]) -> Message:
    message = Message.__new__(Message)
    for field, value in fields.items():
        object.__setattr__(message, field, value)
    return message
