"""Records between the home of a queue or subscription and the broker of a consumer, as bytes in the stream of a channel
(`channel`).

An *attachment* is one consumer at its broker; tags are those of the home's mailbox; a *token* names a request that the
home answers.

>>> record = SettleDeliveries(3, int(Settlement.DONE), False, (1, 300))
>>> stream = encode_record(record)
>>> decode_records(bytearray(stream + stream[:2])) == ([record], len(stream))
True
"""

from dataclasses import dataclass, fields
from enum import IntEnum
from operator import attrgetter
from typing import Any, TypeAlias

from tidings.errors import CodecError
from tidings.model.reader import Reader, put_varint


class Settlement(IntEnum):
    """The verdicts on deliveries."""

    DONE = 0
    RETRY = 1  # counted as a try
    SPARED = 2  # marked, and not counted
    BACK = 3  # as if it had not been delivered
    DEAD = 4


# --- from the broker of a consumer to the home --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AttachConsumer:
    attachment: int
    queue: str
    selector: str
    exclusive: bool


@dataclass(frozen=True, slots=True)
class AttachSubscriber:
    """The same for a durable or shared subscription, which is made if there is none; answered by `ConsumerAttached`."""

    attachment: int
    name: str
    selector: str  # of the rule for its user
    predicate: bytes
    asked: bytes  # without what the rule adds
    formerly: bytes  # the same as version 1 of the language read it
    policy: str
    exclusive: bool
    manages: bool  # its user may manage the topic
    everywhere: bool  # answer when all brokers know the subscription


@dataclass(frozen=True, slots=True)
class AllowDeliveries:
    """The number of deliveries that the home may make to the attachment in all."""

    attachment: int
    total: int


@dataclass(frozen=True, slots=True)
class SettleDeliveries:
    attachment: int
    settlement: int
    elsewhere: bool  # not to this consumer again
    tags: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DrainConsumer:
    """Answer `ConsumerDrained` when nothing more can be delivered; no credit is left then."""

    attachment: int
    token: int


@dataclass(frozen=True, slots=True)
class DetachConsumer:
    attachment: int


@dataclass(frozen=True, slots=True)
class SyncSettlements:
    """Answer `SettlementsSynced` when all that was settled before is on disk."""

    token: int


@dataclass(frozen=True, slots=True)
class AdoptSubscription:
    """A former home hands a subscription over: make it if there is none. Answered by `SettlementsSynced` when all
    brokers know that it is kept there."""

    token: int
    name: str
    predicate: bytes
    asked: bytes


@dataclass(frozen=True, slots=True)
class HandOverMessage:
    """A message of a subscription that was adopted; answered by `SettlementsSynced` when it is on disk."""

    token: int
    name: str
    message: bytes


@dataclass(frozen=True, slots=True)
class ForgetSubscription:
    """Delete a durable subscription; answered by `SettlementsSynced`."""

    token: int
    name: str
    look: bool  # only say whether there is one
    manages: bool  # for a user that may manage all topics


# --- from the home ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class HomeDelivery:
    attachment: int
    tag: int
    given: int  # deliveries of this message before
    message: bytes


@dataclass(frozen=True, slots=True)
class ConsumerDrained:
    attachment: int
    token: int


@dataclass(frozen=True, slots=True)
class SettlementsSynced:
    token: int


@dataclass(frozen=True, slots=True)
class ConsumerAttached:
    """The subscription is in force."""

    attachment: int


@dataclass(frozen=True, slots=True)
class RequestRefused:
    token: int
    code: str
    reason: str


@dataclass(frozen=True, slots=True)
class AttachmentRefused:
    """The attachment is over. Code E_QUEUE_MOVED: the queue has another home, which the flood names."""

    attachment: int
    code: str
    reason: str


ToHome: TypeAlias = (
    AttachConsumer
    | AttachSubscriber
    | AllowDeliveries
    | SettleDeliveries
    | DrainConsumer
    | DetachConsumer
    | SyncSettlements
    | AdoptSubscription
    | HandOverMessage
    | ForgetSubscription
)
FromHome: TypeAlias = (
    HomeDelivery | ConsumerDrained | SettlementsSynced | AttachmentRefused | ConsumerAttached | RequestRefused
)
QueueRecord: TypeAlias = ToHome | FromHome

NUMBER, TEXT, FLAG, BYTES, NUMBERS = range(5)
LAYOUTS: dict[type[Any], tuple[int, tuple[int, ...]]] = {
    AttachConsumer: (1, (NUMBER, TEXT, TEXT, FLAG)),
    AllowDeliveries: (2, (NUMBER, NUMBER)),
    SettleDeliveries: (3, (NUMBER, NUMBER, FLAG, NUMBERS)),
    DrainConsumer: (4, (NUMBER, NUMBER)),
    DetachConsumer: (5, (NUMBER,)),
    SyncSettlements: (6, (NUMBER,)),
    AttachSubscriber: (7, (NUMBER, TEXT, TEXT, BYTES, BYTES, BYTES, TEXT, FLAG, FLAG, FLAG)),
    AdoptSubscription: (8, (NUMBER, TEXT, BYTES, BYTES)),
    HandOverMessage: (9, (NUMBER, TEXT, BYTES)),
    ForgetSubscription: (10, (NUMBER, TEXT, FLAG, FLAG)),
    HomeDelivery: (65, (NUMBER, NUMBER, NUMBER, BYTES)),
    ConsumerDrained: (66, (NUMBER, NUMBER)),
    SettlementsSynced: (67, (NUMBER,)),
    AttachmentRefused: (68, (NUMBER, TEXT, TEXT)),
    ConsumerAttached: (69, (NUMBER,)),
    RequestRefused: (70, (NUMBER, TEXT, TEXT)),
}
_KINDS = {number: (kind, layout) for kind, (number, layout) in LAYOUTS.items()}
_PLANS = {
    kind: (number, [(attrgetter(one.name), part) for one, part in zip(fields(kind), layout, strict=True)])
    for kind, (number, layout) in LAYOUTS.items()
}
LENGTH_BYTES = 4


def encode_record(record: QueueRecord) -> bytes:
    """After its length."""
    number, plan = _PLANS[type(record)]
    out = bytearray(LENGTH_BYTES)
    out.append(number)
    for get, part in plan:
        _put(out, part, get(record))
    out[:LENGTH_BYTES] = (len(out) - LENGTH_BYTES).to_bytes(LENGTH_BYTES, "little")
    return bytes(out)


def decode_records(stream: bytearray) -> tuple[list[QueueRecord], int]:
    """The whole records at the beginning of a stream, and where they end."""
    records: list[QueueRecord] = []
    position = 0
    while len(stream) - position >= LENGTH_BYTES:
        end = position + LENGTH_BYTES + int.from_bytes(stream[position : position + LENGTH_BYTES], "little")
        if end > len(stream):
            break
        records.append(_decode(bytes(stream[position + LENGTH_BYTES : end])))
        position = end
    return records, position


def _decode(data: bytes) -> QueueRecord:
    reader = Reader(data, family="CONTROL")
    number = reader.byte("a record's kind")
    if number not in _KINDS:
        raise CodecError("E_CONTROL_KIND", f"unknown record {number} of a queue", position=0)
    kind, layout = _KINDS[number]
    record: QueueRecord = kind(*[_get(reader, part) for part in layout])
    reader.finish("a record of a queue")
    return record


def _put(out: bytearray, kind: int, value: Any) -> None:
    if kind in (NUMBER, FLAG):
        put_varint(out, int(value))
    elif kind == NUMBERS:
        put_varint(out, len(value))
        for one in value:
            put_varint(out, one)
    else:
        data = value.encode() if kind == TEXT else value
        put_varint(out, len(data))
        out += data


def _get(reader: Reader, kind: int) -> Any:
    if kind == NUMBER:
        return reader.varint()
    if kind == FLAG:
        return reader.varint(1) == 1
    if kind == NUMBERS:
        return tuple([reader.varint() for _ in range(reader.count())])
    if kind == TEXT:
        return reader.text(reader.varint(), "a text")
    return reader.counted(2**32)
