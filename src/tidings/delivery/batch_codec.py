"""Batches as bytes: what a store puts on disk, so that every flipped bit is noticed and costs one record at most.

    directory | record | record | ... | directory again

A directory is a head (magic, number of records, batch number, oldest batch still needed, last seq, checksum) and a
table (all lengths, then all CRC-32s). Lengths stand apart from the records because a flipped length in front of a
record would take all that follow with it; the directory is there twice because otherwise it would be the one place
where a single bit costs the whole batch. Searching for the next record that looks right is no way out: a message may
hold the bytes of a record, put there by whoever published it. CRC-32 notices all errors within 32 adjacent bits
for certain and any other with a probability of 1 - 2**-32.

The second directory is the first with its parts exchanged (table, then head), so that each is found from its end of
the blob without knowing the other. All integers are little-endian.

Packing is a loop of `struct.pack` and one join, about one microsecond a message. Reading back has two ways: `unpack`
yields records one by one; `scan` yields the *columns* of all messages in the batch as arrays, for recovery of millions.

>>> blob = pack(Head(number=1), [Stored(1, b"hello", (7,)), Acked(7, (1,))])
>>> unpack(blob).records
[Stored(seq=1, message_bytes=b'hello', mailboxes=(7,)), Acked(mailbox=7, seqs=(1,))]
>>> broken = unpack(blob.replace(b"hello", b"jello"))
>>> broken.records, broken.damaged
([Acked(mailbox=7, seqs=(1,))], [Damage(reason='checksum differs', batch=1, record=0)])
"""

import struct
from collections.abc import Sequence, Set
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, assert_never
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from tidings.delivery.store import (
    Acked,
    Attached,
    Counted,
    Damage,
    Detached,
    MailboxAdded,
    MailboxRemoved,
    Note,
    Recent,
    Record,
    Stored,
    priority_of,
)
from tidings.errors import CodecError, UsageError

MAGIC = b"TDB1"
HEAD = struct.Struct("<4sIQQQ")  # magic, records, number, oldest, last seq
CRC = struct.Struct("<I")
HEAD_BYTES = HEAD.size + CRC.size
STORED, ACKED, ADDED, REMOVED, ATTACHED, DETACHED, COUNTED, NOTE = range(1, 9)
STORED_ONE = struct.Struct("<BQHI")  # the usual case: kind, seq, number of mailboxes (1), the mailbox
STORED_MANY = struct.Struct("<BQH")
ADDED_FIXED = struct.Struct("<BIHHI")
NOTE_FIXED = struct.Struct("<BH")
COUNTED_ALL = struct.Struct("<BIQI")
MAILBOX_ONLY = struct.Struct("<BI")

FEW = 16  # records or messages; up to here plain Python is faster than arrays

Ints = NDArray[np.int64]


class Head(NamedTuple):
    number: int  # batches are numbered without gaps
    oldest: int = 0  # batches before this one were deleted when this one was written
    last_seq: int = 0


@dataclass(frozen=True, slots=True)
class Unpacked:
    head: Head
    records: list[Record]
    damaged: list[Damage]


@dataclass(frozen=True, slots=True)
class BatchLayout:
    """The positions of the records in a blob; those of `good` passed their checksum."""

    head: Head
    starts: Ints
    ends: Ints
    good: Ints  # positions in the two columns above
    damaged: list[Damage]


@dataclass(frozen=True, slots=True)
class Scan:
    """The messages of a batch as columns, and all its other records."""

    head: Head
    seqs: Ints
    starts: Ints  # of the message bytes in the blob
    sizes: Ints  # of the message bytes
    priorities: Ints
    widths: Ints  # how many mailboxes
    mailboxes: Ints  # of all messages, one after the other
    others: list[Record]
    damaged: list[Damage]


class Row(NamedTuple):
    """One message of a batch."""

    seq: int
    start: int  # of the message bytes in the blob
    size: int
    priority: int
    mailboxes: tuple[int, ...]


# --- writing ---------------------------------------------------------------------------------------------------------


def pack(head: Head, records: Sequence[Record]) -> bytes:
    parts: list[bytes] = []
    sizes: list[int] = []
    sums: list[int] = []
    try:
        for record in records:
            if type(record) is Stored:
                boxes = record.mailboxes
                if len(boxes) == 1:
                    front = STORED_ONE.pack(STORED, record.seq, 1, boxes[0])
                else:
                    front = STORED_MANY.pack(STORED, record.seq, len(boxes)) + struct.pack(f"<{len(boxes)}I", *boxes)
                message = record.message_bytes
                parts.append(front)
                parts.append(message)
                sizes.append(len(front) + len(message))
                sums.append(crc32(message, crc32(front)))
            else:
                body = _pack_rare(record)
                parts.append(body)
                sizes.append(len(body))
                sums.append(crc32(body))
        table = struct.pack(f"<{2 * len(sizes)}I", *sizes, *sums)
    except (struct.error, UnicodeEncodeError) as error:
        raise UsageError("E_STORE_RECORD", f"cannot be stored: {error}", position=len(sizes)) from None
    fixed = HEAD.pack(MAGIC, len(sizes), head.number, head.oldest, head.last_seq)
    top = fixed + CRC.pack(crc32(table, crc32(fixed)))
    return b"".join([top, table, *parts, table, top])


def _pack_rare(record: Record) -> bytes:
    match record:
        case Acked(mailbox, seqs):
            return struct.pack(f"<BI{len(seqs)}Q", ACKED, mailbox, *seqs)
        case MailboxAdded(mailbox, name, kind, predicate, options):
            text, sort = name.encode(), kind.encode()
            fixed = ADDED_FIXED.pack(ADDED, mailbox, len(text), len(sort), len(predicate))
            return b"".join((fixed, text, sort, predicate, options))
        case MailboxRemoved(mailbox):
            return MAILBOX_ONLY.pack(REMOVED, mailbox)
        case Attached(mailbox):
            return MAILBOX_ONLY.pack(ATTACHED, mailbox)
        case Detached(mailbox):
            return MAILBOX_ONLY.pack(DETACHED, mailbox)
        case Counted(mailbox, seq, deliveries):
            return COUNTED_ALL.pack(COUNTED, mailbox, seq, deliveries)
        case Note(key, value):
            text = key.encode()
            return NOTE_FIXED.pack(NOTE, len(text)) + text + value
        case Stored():
            raise AssertionError("packed by `pack` itself")
        case _:
            assert_never(record)


# --- reading ---------------------------------------------------------------------------------------------------------


def unpack(blob: bytes) -> Unpacked:
    """All records that can be trusted, in order. CodecError if neither directory can be."""
    where = layout(blob)
    records: list[Record] = []
    for position in where.good.tolist():
        try:
            records.append(decode(blob[where.starts[position] : where.ends[position]]))
        except CodecError as error:
            where.damaged.append(Damage(error.reason, where.head.number, position))
    return Unpacked(where.head, records, where.damaged)


def scan(blob: bytes, *, trusted: bool = False) -> Scan:
    """The same for many messages at a time. `trusted`: just packed, so there is no need to check it."""
    where = layout(blob, trusted=trusted)
    starts, ends, data = where.starts[where.good], where.ends[where.good], np.frombuffer(blob, np.uint8)
    others: list[Record] = []
    wrong: list[int] = []
    kinds = data[np.minimum(starts, len(data) - 1)]  # an empty record decodes to an error below
    stored = (kinds == STORED) & (ends - starts >= STORED_MANY.size)
    fronts = starts[stored]
    fixed = data[fronts[:, None] + np.arange(1, STORED_MANY.size)]
    seqs = fixed[:, :8].copy().view("<u8").astype(np.int64).ravel()
    widths = fixed[:, 8:].copy().view("<u2").astype(np.int64).ravel()
    bodies = fronts + STORED_MANY.size + 4 * widths
    fits = (bodies <= ends[stored]) & (seqs > 0)
    wrong += where.good[stored][~fits].tolist()
    seqs, widths, bodies, fronts, sizes = (
        column[fits] for column in (seqs, widths, bodies, fronts, ends[stored] - bodies)
    )
    inner = spread(fronts + STORED_MANY.size, widths, step=4)
    mailboxes = data[inner[:, None] + np.arange(4)].copy().view("<u4").astype(np.int64).ravel()
    priorities = np.where(sizes > 2, data[np.minimum(bodies + 2, len(data) - 1)], 0).astype(np.int64)
    for position in where.good[~stored].tolist():
        try:
            others.append(decode(blob[where.starts[position] : where.ends[position]]))
        except CodecError:
            wrong.append(position)
    damaged = where.damaged + [Damage("malformed record", where.head.number, position) for position in wrong]
    return Scan(where.head, seqs, bodies, sizes, priorities, widths, mailboxes, others, damaged)


def heads(blob: bytes, size: int) -> list[Recent]:
    """The first bytes of each sound message of a batch."""
    try:
        found = scan(blob)
    except CodecError:
        return []
    ends = np.cumsum(found.widths)
    boxes = found.mailboxes.tolist()
    return [
        Recent(seq, tuple(boxes[end - width : end]), blob[start : start + min(size, length)])
        for seq, start, length, width, end in zip(
            *(one.tolist() for one in (found.seqs, found.starts, found.sizes, found.widths, ends)), strict=True
        )
    ]


def outline(blob_bytes: int, records: Sequence[Record], done: Set[int] = frozenset()) -> tuple[list[Row], list[Record]]:
    """The messages in a blob that was just packed of these records, and the other records: a few need no arrays.
    Without those messages that are done with already, and what was said to that end."""
    rows: list[Row] = []
    others: list[Record] = []
    end = blob_bytes - HEAD_BYTES - 8 * len(records)
    for record in reversed(records):  # records lie back to back, and messages at the end of theirs
        if type(record) is Stored:
            message, mailboxes = record.message_bytes, record.mailboxes
            size = len(message)
            if record.seq not in done:
                rows.append(Row(record.seq, end - size, size, priority_of(message), mailboxes))
            end -= STORED_MANY.size + 4 * len(mailboxes) + size
        elif type(record) is Acked:
            if not done or any(seq not in done for seq in record.seqs):
                others.append(record)
            end -= MAILBOX_ONLY.size + 8 * len(record.seqs)
        else:
            others.append(record)
            end -= len(_pack_rare(record))
    return rows[::-1], others[::-1]


def spread(starts: Ints, counts: Ints, step: int = 1) -> Ints:
    """start, start + step, ... (count of them) for every start, in one array."""
    total = int(counts.sum())
    if total == len(starts) and bool((counts == 1).all()):
        return starts
    before = np.cumsum(counts) - counts
    return np.repeat(starts - before * step, counts) + np.arange(total, dtype=np.int64) * step


def layout(blob: bytes, *, trusted: bool = False) -> BatchLayout:
    """Find the records by the first directory, or by the second if the first is damaged."""
    size = len(blob)
    damaged: list[Damage] = []
    front = _directory(blob, blob[:HEAD_BYTES], HEAD_BYTES)
    if not trusted:
        top = blob[-HEAD_BYTES:]
        count = CRC.unpack_from(top, 4)[0] if len(top) == HEAD_BYTES else 0
        back = _directory(blob, top, size - HEAD_BYTES - 8 * count)
        if front is None and back is None:
            raise CodecError("E_BATCH_DAMAGED", "neither directory of the batch is intact", position=0)
        if front != back:
            head = (front or back or (Head(0), 0, b""))[0]
            damaged.append(Damage("one of the two directories is damaged; the other one is used", head.number))
        front = front or back
    assert front is not None
    head, count, table = front
    lengths = np.frombuffer(table, "<u4", count).astype(np.int64)
    ends = HEAD_BYTES + 8 * count + np.cumsum(lengths)
    starts = ends - lengths
    if trusted:
        return BatchLayout(head, starts, ends, np.arange(count), damaged)
    view = memoryview(blob)
    found = [crc32(view[start:end]) for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
    same = np.array(found, np.uint32) == np.frombuffer(table, "<u4", count, offset=4 * count)
    bad = np.nonzero(~same)[0].tolist()
    damaged += [Damage("checksum differs", head.number, position) for position in bad]
    return BatchLayout(head, starts, ends, np.nonzero(same)[0], damaged)


def _directory(blob: bytes, top: bytes, table_at: int) -> tuple[Head, int, bytes] | None:
    """The head, the number of records and the table, if the checksum says so and the sizes add up."""
    if len(top) < HEAD_BYTES:
        return None
    magic, count, number, oldest, last_seq = HEAD.unpack_from(top)
    room = len(blob) - 2 * HEAD_BYTES - 16 * count
    if magic != MAGIC or room < 0 or table_at < 0 or max(number, oldest, last_seq) >= 2**63:
        return None
    table = blob[table_at : table_at + 8 * count]
    if CRC.unpack_from(top, HEAD.size)[0] != crc32(table, crc32(top[: HEAD.size])):
        return None
    if int(np.frombuffer(table, "<u4", count).sum(dtype=np.int64)) != room:
        return None
    return Head(number, oldest, last_seq), count, table


def decode(body: bytes) -> Record:
    """One record; CodecError if it is not exactly one."""
    try:
        return _decode(body)
    except (struct.error, IndexError):
        raise CodecError("E_RECORD", "record too short", position=len(body)) from None
    except UnicodeDecodeError as error:
        raise CodecError("E_RECORD", "text is not UTF-8", position=error.start) from None


def _decode(body: bytes) -> Record:
    match body[0]:
        case 1:  # STORED
            _, seq, width = STORED_MANY.unpack_from(body)
            boxes = struct.unpack_from(f"<{width}I", body, STORED_MANY.size)
            return Stored(seq, body[STORED_MANY.size + 4 * width :], boxes)
        case 2:  # ACKED
            count, rest = divmod(len(body) - MAILBOX_ONLY.size, 8)
            if rest or count < 0:
                raise CodecError("E_RECORD", "not a whole number of seqs", position=len(body))
            _, mailbox, *seqs = struct.unpack(f"<BI{count}Q", body)
            return Acked(mailbox, tuple(seqs))
        case 3:  # ADDED
            _, mailbox, text, sort, predicate = ADDED_FIXED.unpack_from(body)
            ends = [ADDED_FIXED.size, ADDED_FIXED.size + text]
            ends += [ends[1] + sort, ends[1] + sort + predicate]
            if ends[3] > len(body):
                raise CodecError("E_RECORD", "record too short", position=len(body))
            name, kind, rules = (body[start:end] for start, end in pairwise(ends))
            return MailboxAdded(mailbox, name.decode(), kind.decode(), rules, body[ends[3] :])
        case 4:
            return MailboxRemoved(MAILBOX_ONLY.unpack(body)[1])
        case 5:
            return Attached(MAILBOX_ONLY.unpack(body)[1])
        case 6:
            return Detached(MAILBOX_ONLY.unpack(body)[1])
        case 7:
            return Counted(*COUNTED_ALL.unpack(body)[1:])
        case 8:
            end = NOTE_FIXED.size + NOTE_FIXED.unpack_from(body)[1]
            if end > len(body):
                raise CodecError("E_RECORD", "record too short", position=len(body))
            return Note(body[NOTE_FIXED.size : end].decode(), body[end:])
        case kind:
            raise CodecError("E_RECORD", f"no record of kind {kind}", position=0)
