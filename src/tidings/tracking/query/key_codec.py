"""Questions about keys as brokers send them to each other, and what a search found (docs/wire.md, "Tracing").

>>> decode(encode(KeyQuestion(7, KeyQuery("order", (1, 2))))).query
KeyQuery(name='order', hashes=(1, 2), first_ms=0, last_ms=281474976710655, count=100)
"""

import json
from dataclasses import dataclass
from typing import TypeAlias

from tidings.errors import CodecError, UsageError
from tidings.model.message_id import SIZE, MessageId
from tidings.model.reader import Reader, put_varint
from tidings.tracking.trace_answer import KeyAnswer, KeyQuery

QUESTION, ANSWER = 6, 7
NAME_BYTES_MAX, HASHES_MAX = 4096, 8
MESSAGES_MAX = 1000
_U32, _U64, _TIME_MAX = 2**32 - 1, 2**64 - 1, 2**48 - 1


@dataclass(frozen=True, slots=True)
class KeyQuestion:
    """Asks a broker for messages; the answer carries the same number."""

    number: int
    query: KeyQuery


@dataclass(frozen=True, slots=True)
class KeyAnswered:
    number: int
    answer: KeyAnswer


@dataclass(frozen=True, slots=True)
class FoundMessages:
    """The messages with a value of an attribute, oldest first, as far as brokers could be asked."""

    messages: tuple[MessageId, ...] = ()
    more: bool = False  # there are older ones
    since_ms: int = 0  # of older messages some may be missing
    unasked: tuple[int, ...] = ()  # brokers that did not answer
    unrecorded: tuple[int, ...] = ()  # brokers that do not record this attribute


KeyRecord: TypeAlias = KeyQuestion | KeyAnswered


def encode(record: KeyRecord) -> bytes:
    out = bytearray((QUESTION if isinstance(record, KeyQuestion) else ANSWER,))
    put_varint(out, record.number)
    if isinstance(record, KeyQuestion):
        query, name = record.query, record.query.name.encode()
        put_varint(out, len(name))
        out += name
        for number in (len(query.hashes), *query.hashes, query.first_ms, query.last_ms, query.count):
            put_varint(out, number)
    else:
        answer = record.answer
        for number in (answer.broker, answer.more, answer.since_ms, answer.recorded, len(answer.messages)):
            put_varint(out, number)
        out += b"".join(map(bytes, answer.messages))
    return bytes(out)


def decode(data: bytes) -> KeyRecord:
    reader = Reader(data, family="CONTROL")
    kind = reader.byte()
    if kind not in (QUESTION, ANSWER):
        raise CodecError("E_TRACE_KIND", f"unknown record type {kind} of a search for keys", position=0)
    number = reader.varint(_U64)
    if kind == QUESTION:
        name = reader.text(reader.varint(NAME_BYTES_MAX), "an attribute")
        hashes = tuple(reader.varint(_U64) for _ in range(reader.varint(HASHES_MAX)))
        span = reader.varint(_TIME_MAX), reader.varint(_TIME_MAX)
        record: KeyRecord = KeyQuestion(number, KeyQuery(name, hashes, *span, reader.varint(MESSAGES_MAX)))
    else:
        broker, more, since_ms, recorded = (reader.varint(top) for top in (_U32, 1, 2**48, 1))
        count = reader.varint(MESSAGES_MAX)
        messages = tuple(MessageId.from_bytes(reader.take(SIZE, "a message id")) for _ in range(count))
        record = KeyAnswered(number, KeyAnswer(broker, messages, bool(more), since_ms, bool(recorded)))
    reader.finish("the message")
    return record


def to_json(found: FoundMessages) -> str:
    return json.dumps(to_dict(found), separators=(",", ":"))


def to_dict(found: FoundMessages) -> dict[str, object]:
    return {
        "messages": [str(one) for one in found.messages],
        "more": found.more,
        "since_ms": found.since_ms,
        "unasked": list(found.unasked),
        "unrecorded": list(found.unrecorded),
    }


def from_json(text: str) -> FoundMessages:
    try:
        found = json.loads(text)
        messages = tuple(MessageId.parse(str(one)) for one in found["messages"])
        unasked, unrecorded = (tuple(map(int, found[name])) for name in ("unasked", "unrecorded"))
        return FoundMessages(messages, bool(found["more"]), int(found["since_ms"]), unasked, unrecorded)
    except (ValueError, KeyError, TypeError, UsageError) as error:
        raise CodecError("E_TRACE_REPORT", f"not the result of a search: {error!r}") from None
