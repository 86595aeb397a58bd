"""Notes which messages have which values of chosen attributes, so that a message can be found by a business key.

The kernel takes the notes where messages are published (native/include/tidings/tracking/key_notes.hpp): a hash of the
value, and the message's id. Stored, a hash has 48 bits, and the ids are a list of runs, as in histories:

    count u32 | size of the list of runs u32 | list of runs (docs/wire.md) | 6 bytes of each hash, as the ids

A hash that another value has too names a message that has not this value: with probability `fpp` for each search.

>>> from tidings.model.message_id import MessageId
>>> ids = [MessageId(7, 1, 1000 + number) for number in range(100)]
>>> hashes = b"".join(key_hash("order", number).to_bytes(8, "little") for number in range(100))
>>> batch = KeyBatch("order", hashes, b"".join(map(bytes, ids)))
>>> data = encode_keys([batch])
>>> query = KeyQuery("order", query_hashes("order", "41"))
>>> find_key([data], query).tobytes() == bytes(ids[41]), len(data)
(True, 648)
"""

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tidings.errors import CodecError, UsageError
from tidings.kernel.exact_lists import RunIds
from tidings.kernel.hash64 import hash64
from tidings.model.message_id import SIZE, MessageId
from tidings.model.values import Untyped, Value, reading
from tidings.tracking.ids import IdArray, as_ids, id_times
from tidings.tracking.trace_answer import KeyAnswer, KeyQuery

TRACE_CONTEXT = "traceparent"  # https://www.w3.org/TR/trace-context/: version-traceid-parent-flags
NAMES_MAX = 64
HASH_BYTES = 6
_MASK = (1 << 8 * HASH_BYTES) - 1
_HEAD = struct.Struct("<II")
_INTEGERS = 2.0**63
_VERSION, _DIGITS, _REST = 3, 32, 20  # of a traceparent, in characters
_ORDER = [*range(4, 8), *range(4), *range(8, 16)]  # of an id's bytes: that of lists of runs
_Hashes: TypeAlias = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class KeyBatch:
    """Messages with an attribute: of each 8 bytes of hash, the lowest first, and 16 bytes of id."""

    name: str
    hashes: bytes
    ids: bytes


def key_hash(name: str, value: Value) -> int:
    """The same for values that are equal for selectors; of a `traceparent`, or the trace id in it, that id counts."""
    if name == TRACE_CONTEXT and isinstance(value, str) and (trace_id := _trace_id(value)):
        return _of_bytes("s", trace_id.encode())
    if type(value) is Untyped and (read := reading(value)) is not None:
        value = read
    if isinstance(value, bool):
        return _of_word("b", int(value))
    if isinstance(value, int):
        return _of_word("n", value)
    if isinstance(value, float):
        if -_INTEGERS <= value < _INTEGERS and value.is_integer():
            return _of_word("n", int(value))
        return _of_bytes("d", struct.pack("<d", value))
    return _of_bytes("y", value) if isinstance(value, bytes) else _of_bytes("s", value.encode())


def query_hashes(name: str, value: Value) -> tuple[int, ...]:
    """Hashes to look for: those of a text, and of what it reads as."""
    if name == TRACE_CONTEXT and isinstance(value, str):
        value = value.lower()  # as the standard has it
    values = [value, Untyped(value)] if isinstance(value, str) else [value]
    return tuple(dict.fromkeys(key_hash(name, one) for one in values))


def check_names(names: Sequence[str]) -> tuple[str, ...]:
    """The attributes to record; refuses more than the kernel can take, and empty ones."""
    if len(names) > NAMES_MAX or not all(names):
        raise UsageError("E_TRACKING_KEYS", f"keys are the names of at most {NAMES_MAX} attributes")
    return tuple(dict.fromkeys(names))


def encode_keys(batches: Iterable[KeyBatch | bytes]) -> bytes:
    """Notes of one attribute, and encoded ones, as one; what is there twice once."""
    parts = [_decode(one) if isinstance(one, bytes) else _columns(one) for one in batches]
    ids = np.concatenate([ids for ids, _ in parts])
    hashes = np.concatenate([hashes for _, hashes in parts])
    sortable = np.ascontiguousarray(ids[:, _ORDER]).view("S16").ravel()
    _, first = np.unique(sortable, return_index=True)
    runs = RunIds.of(ids[first]).to_bytes()
    return _HEAD.pack(len(first), len(runs)) + runs + hashes[first].tobytes()


def find_key(parts: Iterable[bytes], query: KeyQuery) -> IdArray:
    """The ids of messages that encoded notes have for a query; some may be there twice."""
    wanted = [np.frombuffer((one & _MASK).to_bytes(HASH_BYTES, "little"), np.uint8) for one in query.hashes]
    rows = [np.empty((0, SIZE), np.uint8)]
    for data in parts:
        _, runs, column = _parts(data)
        found = np.zeros(len(column), np.bool_)
        for one in wanted:
            found |= (column == one).all(axis=1)
        if found.any():
            rows.append(RunIds.from_bytes(runs).ids()[found])
    ids = np.concatenate(rows)
    times = id_times(ids)
    return ids[(times >= query.first_ms) & (times <= query.last_ms)]


def answered(broker: int, query: KeyQuery, ids: IdArray, *, more: bool = False, since_ms: int = 0) -> KeyAnswer:
    """The newest of these messages, as many as the query wants."""
    ids = np.unique(ids, axis=0)
    newest = ids[np.argsort(id_times(ids), kind="stable")][-query.count :]
    messages = tuple(MessageId.from_bytes(row.tobytes()) for row in newest)
    return KeyAnswer(broker, messages, more or len(ids) > len(messages), since_ms)


def fpp(entries: int) -> float:
    """The probability that a search among this number of notes names a message that has another value."""
    return entries / (_MASK + 1)


def _trace_id(text: str) -> str:
    whole = len(text) >= _VERSION + _DIGITS + _REST and text[2] == "-" and text[_VERSION + _DIGITS] == "-"
    return text[_VERSION : _VERSION + _DIGITS] if whole else ""


def _of_word(kind: str, word: int) -> int:
    return _of_bytes(kind, (word & 2**64 - 1).to_bytes(8, "little"))


def _of_bytes(kind: str, data: bytes) -> int:
    return hash64(data, ord(kind))


def _columns(batch: KeyBatch) -> tuple[IdArray, _Hashes]:
    ids = as_ids(batch.ids)
    return ids, np.frombuffer(batch.hashes, np.uint8).reshape(len(ids), 8)[:, :HASH_BYTES]


def _parts(data: bytes) -> tuple[int, bytes, _Hashes]:
    if len(data) < _HEAD.size:
        raise CodecError("E_KEYS_SHORT", "truncated notes of keys", position=len(data))
    count, size = _HEAD.unpack_from(data)
    runs, rest = data[_HEAD.size : _HEAD.size + size], data[_HEAD.size + size :]
    if len(runs) != size or len(rest) != HASH_BYTES * count:
        raise CodecError("E_KEYS_LENGTH", f"not the notes of {count} messages", position=len(data))
    return count, runs, np.frombuffer(rest, np.uint8).reshape(count, HASH_BYTES)


def _decode(data: bytes) -> tuple[IdArray, _Hashes]:
    count, runs, column = _parts(data)
    ids = RunIds.from_bytes(runs).ids()
    if len(ids) != count:
        raise CodecError("E_KEYS_LENGTH", f"{len(ids)} ids have {count} hashes", position=_HEAD.size)
    return ids, column
