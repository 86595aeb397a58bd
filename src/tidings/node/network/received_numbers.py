"""Remembers which numbered copies this router has taken, exactly, for each origin and epoch (`copy_numbers`).

All numbers of a pair are for this router and come without holes, so what was taken is one range and a few gaps: copies
that are still on their way, or that expired or were refused on it. A note in the store for each origin and epoch
has them; a batch writes the notes of those it has copies of, about 30 bytes each.

An epoch that is over and of which nothing came for `retain_ms` twice is forgotten (`forget_silent`); a broker gives
up what it keeps for another after `retain_ms`. The latest epoch of each origin is never forgotten, and another note
has the last one that was: a copy of that one or one before is uncertain, as is one in a gap that was closed.

>>> numbers = ReceivedNumbers()
>>> copy = CopyNumber(7, 1 << 16, 1)
>>> numbers.judge(copy), numbers.add(copy, 0), numbers.judge(copy)
(<Recognition.NEW: 1>, None, <Recognition.TAKEN: 2>)
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto

from tidings.delivery.store import Note
from tidings.model.reader import Reader, put_varint
from tidings.node.network.copy_numbers import CopyNumber
from tidings.node.network.number_ranges import NumberRanges
from tidings.overlay.effects import Router

PREFIX, FORGOTTEN_PREFIX = "copies:", "copies-forgotten:"
HOUR_MS = 3_600_000


class Recognition(Enum):
    NEW = auto()
    TAKEN = auto()  # it is a repetition
    UNCERTAIN = auto()


@dataclass(slots=True)
class _Epoch:
    slot: int  # of its note
    ranges: NumberRanges
    hour: int  # of the last change, by the wall clock


class ReceivedNumbers:
    def __init__(self, ranges_max: int = 1024) -> None:
        self._ranges_max = ranges_max
        self._epochs: dict[tuple[Router, int], _Epoch] = {}
        self._latest: dict[Router, int] = {}
        self._forgotten: dict[Router, int] = {}  # the latest one that was
        self._slots: list[tuple[Router, int] | None] = []
        self._changed: set[tuple[Router, int]] = set()  # since `notes` was last asked
        self._leaving: set[tuple[Router, int]] = set()  # in the batch before, if it was not refused

    def __len__(self) -> int:
        """The number of epochs."""
        return len(self._epochs)

    def judge(self, copy: CopyNumber) -> Recognition:
        epoch = self._epochs.get(copy[:2])
        if epoch is not None:
            if copy.number <= epoch.ranges.closed:
                return Recognition.UNCERTAIN
            if copy.number in epoch.ranges:
                return Recognition.TAKEN
        return Recognition.UNCERTAIN if copy.epoch <= self._forgotten.get(copy.origin, -1) else Recognition.NEW

    def add(self, copy: CopyNumber, now_ms: int) -> None:
        """It is taken; that lasts once what `notes` returns is written."""
        epoch = self._epochs.get(copy[:2]) or self._begin(copy.origin, copy.epoch)
        epoch.ranges.add(copy.number)
        epoch.hour = max(0, now_ms) // HOUR_MS
        self._changed.add(copy[:2])

    def discard(self, copy: CopyNumber) -> None:
        """It could not be stored, nor anything else of its batch."""
        self._changed |= self._leaving
        if (epoch := self._epochs.get(copy[:2])) is not None:
            epoch.ranges.discard(copy.number)

    def notes(self) -> list[Note]:
        self._leaving, self._changed = self._changed, set()
        return [self._note(key) for key in sorted(self._leaving)]

    def forget_silent(self, now_ms: int, silent_ms: float) -> list[Note]:
        """Forget epochs that are over; returns the notes to be written."""
        past = [
            key
            for key, epoch in self._epochs.items()
            if key[1] < self._latest[key[0]] and now_ms - epoch.hour * HOUR_MS > silent_ms + HOUR_MS
        ]
        notes = []
        for key in past:
            origin, number = key
            slot = self._epochs.pop(key).slot
            self._slots[slot] = None
            self._changed.discard(key)
            self._leaving.discard(key)
            self._forgotten[origin] = max(self._forgotten.get(origin, 0), number)
            notes.append(Note(f"{FORGOTTEN_PREFIX}{origin}", self._forgotten[origin].to_bytes(8, "little")))
            notes.append(Note(f"{PREFIX}{slot}", b""))
        return notes

    def recover(self, notes: Mapping[str, bytes]) -> None:
        for key, value in notes.items():
            if key.startswith(FORGOTTEN_PREFIX):
                self._forgotten[int(key.removeprefix(FORGOTTEN_PREFIX))] = int.from_bytes(value, "little")
            elif key.startswith(PREFIX):
                slot = int(key.removeprefix(PREFIX))
                self._slots += [None] * (slot + 1 - len(self._slots))
                if value:
                    self._recover(slot, Reader(value, family="CONTROL"))

    def _recover(self, slot: int, reader: Reader) -> None:
        origin, number, hour = [reader.varint() for _ in range(3)]
        ranges = NumberRanges(self._ranges_max)
        ranges.decode(reader)
        self._keep(origin, number, _Epoch(slot, ranges, hour))

    def _begin(self, origin: Router, number: int) -> _Epoch:
        if None not in self._slots:
            self._slots.append(None)
        return self._keep(origin, number, _Epoch(self._slots.index(None), NumberRanges(self._ranges_max), 0))

    def _keep(self, origin: Router, number: int, epoch: _Epoch) -> _Epoch:
        self._slots[epoch.slot] = (origin, number)
        self._epochs[origin, number] = epoch
        self._latest[origin] = max(self._latest.get(origin, 0), number)
        return epoch

    def _note(self, key: tuple[Router, int]) -> Note:
        epoch, out = self._epochs[key], bytearray()
        for number in (*key, epoch.hour):
            put_varint(out, number)
        epoch.ranges.encode(out)
        return Note(f"{PREFIX}{epoch.slot}", bytes(out))
