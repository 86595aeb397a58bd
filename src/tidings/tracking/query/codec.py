"""Questions and answers about messages as brokers send them to each other (docs/wire.md, "Tracing").

>>> decode(encode(TraceQuestion(7, MessageId(1, 2, 3)))).message
MessageId(publisher=1, broker=2, ms=3, counter=0)
"""

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from math import isnan
from typing import TypeAlias

from tidings.errors import CodecError
from tidings.model.message_id import SIZE, MessageId
from tidings.model.reader import Reader, put_varint
from tidings.tracking.moments import Span
from tidings.tracking.recording.losses import TraceReason
from tidings.tracking.trace_answer import Statement, TraceAnswer, TraceVerdict

QUESTION, ANSWER = 1, 2
NAME_BYTES_MAX = 4096
EXAMPLE_BYTES_MAX = 1 << 16
_VERDICTS = (TraceVerdict.HELD, TraceVerdict.ABSENT, TraceVerdict.UNKNOWN)
_F64 = struct.Struct("<d")
_U32, _U64 = 2**32 - 1, 2**64 - 1


@dataclass(frozen=True, slots=True)
class WhyQuestion:
    """A subscriber, and a message with the attributes in question, encoded; empty: brokers look for their own."""

    subscriber: str = ""
    example: bytes = b""


NOBODY = WhyQuestion()


@dataclass(frozen=True, slots=True)
class TraceQuestion:
    """Asks a broker about a message; the answer carries the same number. `why`: about a subscriber too."""

    number: int
    message: MessageId
    why: WhyQuestion = NOBODY


@dataclass(frozen=True, slots=True)
class Answered:
    number: int
    answer: TraceAnswer


TraceRecord: TypeAlias = TraceQuestion | Answered


def encode(record: TraceRecord) -> bytes:
    out = bytearray((QUESTION if isinstance(record, TraceQuestion) else ANSWER,))
    put_varint(out, record.number)
    if isinstance(record, TraceQuestion):
        out += bytes(record.message)
        for part in (record.why.subscriber.encode(), record.why.example):
            put_varint(out, len(part))
            out += part
    else:
        _put_answer(out, record.answer)
    return bytes(out)


def decode(data: bytes) -> TraceRecord:
    reader = Reader(data, family="CONTROL")
    kind = reader.byte()
    if kind not in (QUESTION, ANSWER):
        raise CodecError("E_TRACE_KIND", f"unknown tracing record type {kind}", position=0)
    number = reader.varint(_U64)
    if kind == QUESTION:
        message = MessageId.from_bytes(reader.take(SIZE, "a message id"))
        subscriber = reader.text(reader.varint(NAME_BYTES_MAX), "a subscriber")
        example = reader.take(reader.varint(EXAMPLE_BYTES_MAX), "an example")
        record: TraceRecord = TraceQuestion(number, message, WhyQuestion(subscriber, example))
    else:
        record = Answered(number, _get_answer(reader))
    reader.finish("the message")
    return record


def _put_answer(out: bytearray, answer: TraceAnswer) -> None:
    put_varint(out, answer.broker)
    out.append(_VERDICTS.index(answer.verdict))
    out += _F64.pack(answer.probability)
    _put_routers(out, answer.neighbours)
    out.append(answer.forwarded is not None)
    _put_routers(out, answer.forwarded or ())
    put_varint(out, len(answer.subscribers))
    for one in answer.subscribers:
        name = one.peer.encode()
        put_varint(out, len(name))
        out += name + _F64.pack(one.probability)
        _put_span(out, one.between)
    put_varint(out, answer.filters)
    out.append(answer.incomplete)
    out.append(answer.entered)
    out.append(answer.moved)
    _put_text(out, answer.publisher)
    put_varint(out, len(answer.reasons))
    for reason in answer.reasons:
        _put_text(out, reason.code)
        _put_text(out, reason.detail)
    _put_span(out, answer.between)


def _get_answer(reader: Reader) -> TraceAnswer:
    broker, verdict = reader.varint(_U32), _VERDICTS[reader.varint(len(_VERDICTS) - 1)]
    probability, neighbours = _probability(reader), _get_routers(reader)
    known, at, forwarded = reader.varint(1), reader.position, _get_routers(reader)
    if forwarded and not known:
        reader.fail("RANGE", "neighbours it went to, of which nothing is known", at)
    subscribers = tuple(_statement(reader) for _ in range(reader.count()))
    filters, incomplete = reader.varint(_U64), bool(reader.varint(1))
    entered, moved, publisher = bool(reader.varint(1)), bool(reader.varint(1)), _get_text(reader)
    reasons = tuple(TraceReason(_get_text(reader), _get_text(reader)) for _ in range(reader.count()))
    statements = (neighbours, forwarded if known else None, subscribers)
    between = _get_span(reader)
    return TraceAnswer(
        broker, verdict, probability, *statements, filters, incomplete, entered, publisher, reasons, moved, between
    )


def _put_text(out: bytearray, text: str) -> None:
    data = text.encode()[:NAME_BYTES_MAX].decode(errors="ignore").encode()
    put_varint(out, len(data))
    out += data


def _get_text(reader: Reader) -> str:
    return reader.text(reader.varint(NAME_BYTES_MAX), "a text")


def _put_span(out: bytearray, span: Span | None) -> None:
    """Nothing, or the start and the length of a span of time."""
    first, last = span or (0, 0)
    for number in (1, max(first, 0), last - max(first, 0)) if span is not None and last >= max(first, 0) else (0,):
        put_varint(out, number)


def _get_span(reader: Reader) -> Span | None:
    if not reader.varint(1):
        return None
    first = reader.varint(_U64)
    return first, first + reader.varint(_U64)


def _put_routers(out: bytearray, routers: Iterable[int]) -> None:
    all_routers = tuple(routers)
    put_varint(out, len(all_routers))
    for router in all_routers:
        put_varint(out, router)


def _get_routers(reader: Reader) -> tuple[int, ...]:
    return tuple([reader.varint(_U32) for _ in range(reader.count())])


def _statement(reader: Reader) -> Statement:
    name = reader.text(reader.varint(NAME_BYTES_MAX), "a name")
    return Statement(name, _probability(reader), _get_span(reader))


def _probability(reader: Reader) -> float:
    at = reader.position
    value: float = _F64.unpack(reader.take(_F64.size, "a probability"))[0]
    if isnan(value) or not 0 <= value <= 1:
        reader.fail("RANGE", "a probability lies between 0 and 1", at)
    return value
