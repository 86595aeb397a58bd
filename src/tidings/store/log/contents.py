"""The store's knowledge of its log: the index of messages and the small state.

Both change batch by batch. A written batch is added when the store is used next, so that `append` returns at once;
small ones are added several at a time, because many messages are acknowledged in the next batch and need no entry.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, assert_never

import numpy as np

from tidings.delivery.batch_codec import FEW, Head, Ints, outline, pack, scan
from tidings.delivery.store import (
    Acked,
    Attached,
    Counted,
    Damage,
    Detached,
    MailboxAdded,
    MailboxRemoved,
    Note,
    Record,
    Stored,
)
from tidings.errors import CodecError
from tidings.store.log.index import Index
from tidings.store.log.state import StateChange, StoreState
from tidings.store.log.tail import TailLimits

UNSETTLED_MAX = 32  # small batches that are taken note of together


class Written(NamedTuple):
    """A batch that the file has and the index does not know of yet."""

    number: int
    blob: bytes
    records: Sequence[Record]
    changes: Sequence[StateChange]
    oldest: int


class Contents:
    def __init__(self, tail: TailLimits | None = None) -> None:
        self.index = Index(tail=tail)
        self.state = StoreState()
        self.newest = 0  # batch
        self.last_seq = 0
        self.unsettled: list[Written] = []

    def few_unsettled(self) -> bool:
        """Small batches of messages and acknowledgements, whose place in the index the next one need not know."""
        waiting = self.unsettled
        last = waiting[-1] if waiting else None
        return last is None or (len(waiting) < UNSETTLED_MAX and len(last.records) <= FEW and not last.changes)

    def settle(self) -> int:
        """Take note of the batches written last; returns their size."""
        batches, self.unsettled = self.unsettled, []
        done = _done_with(batches) if len(batches) > 1 else set()
        size = 0
        for number, blob, records, changes, oldest in batches:
            self.index.forget(oldest)
            if len(records) <= FEW:
                rows, others = outline(len(blob), records, done)
                new = [type(record) for record in records].count(Stored)
                self.index.add_few(number, rows, len(blob), new)
            else:
                found = scan(blob, trusted=True)
                self.index.add(found, len(blob))
                others = found.others
            for record in others:
                self._apply(record)
            for mailbox, seq in self.state.apply(changes):
                self.index.leave_all(mailbox, seq)
            size += len(blob)
        return size

    def _apply(self, record: Record) -> None:
        match record:
            case Acked(mailbox, seqs):
                self.index.leave(mailbox, seqs)
                if self.state.counted:
                    for seq in seqs:
                        self.state.counted.pop((mailbox, seq), None)
            case Counted():
                self._count(record)
            case Stored() | MailboxAdded() | MailboxRemoved() | Attached() | Detached() | Note():
                raise AssertionError(f"{record} has no place in the log")
            case _:
                assert_never(record)

    def _count(self, record: Counted) -> None:
        if self.index.waits(record.mailbox, record.seq):
            self.state.counted[record.mailbox, record.seq] = record.deliveries

    @classmethod
    def load(
        cls,
        tables: Sequence[Mapping[object, object]],
        batches: Iterator[tuple[int, bytes]],
        damaged: list[Damage],
        tail: TailLimits | None = None,
    ) -> "Contents":
        """From the two copies of the state and the batches in order; what is found damaged goes on the list."""
        found = cls(tail)
        damaged += found.state.load(tables)
        found._load_batches(batches, damaged)
        return found

    def _load_batches(self, batches: Iterator[tuple[int, bytes]], damaged: list[Damage]) -> None:
        acks: list[Ints] = []
        counted: list[Counted] = []
        oldest, last_seq, numbers = 0, 0, []
        for number, blob in batches:
            numbers.append(number)
            try:
                found = scan(blob)
                if found.head.number != number:
                    raise CodecError("E_BATCH_DAMAGED", f"this is batch {found.head.number}")
            except CodecError as error:
                damaged.append(Damage(f"batch lost: {error.reason}", number))
                found = scan(pack(Head(number, oldest, last_seq), []))
            damaged += found.damaged
            self.index.add(found, len(blob))
            oldest, last_seq = max(oldest, found.head.oldest), max(last_seq, found.head.last_seq)
            for record in found.others:
                if isinstance(record, Acked):
                    seqs = np.array(record.seqs, np.uint64).astype(np.int64)
                    acks.append(np.stack([np.full_like(seqs, record.mailbox), seqs, np.full_like(seqs, number)]))
                elif isinstance(record, Counted):
                    counted.append(record)
        damaged += _gaps(numbers, oldest)
        self.newest, self.last_seq = max(numbers, default=0), last_seq
        self.index.settle(self.state.since, *np.concatenate([np.empty((3, 0), np.int64), *acks], axis=1))
        for one in counted:
            self._count(one)


def _done_with(batches: Sequence[Written]) -> set[int]:
    """The messages of small batches that these bring to one mailbox and take from it again."""
    acked = {
        (record.mailbox, seq)
        for batch in batches
        for record in batch.records
        if type(record) is Acked
        for seq in record.seqs
    }
    return {
        record.seq
        for batch in batches
        if len(batch.records) <= FEW
        for record in batch.records
        if type(record) is Stored and len(record.mailboxes) == 1 and (record.mailboxes[0], record.seq) in acked
    }


def _gaps(numbers: list[int], oldest: int) -> list[Damage]:
    """Batches that should be there: all from the oldest one needed."""
    expected = oldest
    damaged = []
    for number in numbers:
        if number > expected > 0:
            damaged.append(Damage(f"batches {expected} to {number - 1} are missing"))
        expected = number + 1
    return damaged
