"""The order in which a mailbox gives out its waiting messages: by priority, then as they came.

A backlog may hold a million numbers, so it keeps eight bytes each: per priority a sorted array of sequence numbers that
grows at its end, or close to it (a message that had to be written first comes a little later than its number says), and
shrinks at its head. What comes back (a consumer went away) is older than what still
waits, so it stands in a small heap beside the array, and the smaller of both heads is next. What is taken from the
middle (a consumer with a selector) is noted in a set until the head passes it.

>>> backlog = Backlog()
>>> for seq in (1, 2, 3): backlog.add(BacklogPosition(seq, 4))
>>> backlog.add(BacklogPosition(4, 9))
>>> backlog.take(), backlog.take(), len(backlog)
(BacklogPosition(seq=4, priority=9), BacklogPosition(seq=1, priority=4), 2)
>>> backlog.put_back(BacklogPosition(1, 4))
>>> [place.seq for place in backlog.scan()]
[1, 2, 3]
>>> for seq in (7, 6): backlog.add(BacklogPosition(seq, 4))
>>> [place.seq for place in backlog.scan()]
[1, 2, 3, 6, 7]
"""

import heapq
from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tidings.delivery.store import SEQ_MAX

PRIORITIES = 10
_DOWNWARDS = tuple(reversed(range(PRIORITIES)))


class BacklogPosition(NamedTuple):
    """The place of a message: its number and the priority that puts it before or behind others."""

    seq: int
    priority: int


def behind(place: BacklogPosition) -> list[int]:
    """The argument of `scan` to go on behind this place."""
    after = [0] * PRIORITIES
    after[place.priority] = place.seq
    after[place.priority + 1 :] = [SEQ_MAX] * (PRIORITIES - place.priority - 1)
    return after


class _Lane:
    """The waiting numbers of one priority."""

    __slots__ = ("gone", "head", "returned", "seqs")

    def __init__(self) -> None:
        self.seqs = array("Q")
        self.head = 0
        self.gone: set[int] = set()
        self.returned: list[int] = []

    def add(self, seq: int) -> None:
        seqs = self.seqs
        if not seqs or seqs[-1] < seq:
            seqs.append(seq)
        else:
            seqs.insert(bisect_left(seqs, seq, self.head), seq)

    def first(self) -> int | None:
        self._skip_gone()
        waiting = self.seqs[self.head] if self.head < len(self.seqs) else None
        if self.returned and (waiting is None or self.returned[0] < waiting):
            return self.returned[0]
        return waiting

    def remove(self, seq: int) -> None:
        if self.returned and self.returned[0] == seq:
            heapq.heappop(self.returned)
        elif self.head < len(self.seqs) and self.seqs[self.head] == seq:
            self.head += 1
            self._compact()
        elif seq in self.returned:
            self.returned.remove(seq)
            heapq.heapify(self.returned)
        else:
            self.gone.add(seq)

    def scan(self, after: int) -> Iterator[int]:
        start = bisect_left(self.seqs, after + 1, self.head)
        waiting = (self.seqs[index] for index in range(start, len(self.seqs)))
        returned = sorted(seq for seq in self.returned if seq > after)
        yield from heapq.merge(returned, (seq for seq in waiting if seq not in self.gone))

    def holds(self, seq: int) -> bool:
        at = bisect_left(self.seqs, seq, self.head)
        stands = at < len(self.seqs) and self.seqs[at] == seq and seq not in self.gone
        return stands or seq in self.returned

    def put_back(self, seq: int) -> None:
        if seq in self.gone:  # it still stands in the array
            self.gone.discard(seq)
        else:
            heapq.heappush(self.returned, seq)

    def _skip_gone(self) -> None:
        while self.gone and self.head < len(self.seqs) and self.seqs[self.head] in self.gone:
            self.gone.discard(self.seqs[self.head])
            self.head += 1
        self._compact()

    def _compact(self) -> None:
        if self.head > 1024 and self.head * 2 > len(self.seqs):
            del self.seqs[: self.head]
            self.head = 0


class Backlog:
    """The waiting messages of one mailbox."""

    __slots__ = ("_lanes", "_length")

    def __init__(self) -> None:
        self._lanes: list[_Lane | None] = [None] * PRIORITIES
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def add(self, place: BacklogPosition) -> None:
        self._lane(place.priority).add(place.seq)
        self._length += 1

    def put_back(self, place: BacklogPosition) -> None:
        self._lane(place.priority).put_back(place.seq)
        self._length += 1

    def first(self) -> BacklogPosition | None:
        """The next in order, left where it is."""
        for priority in _DOWNWARDS:
            lane = self._lanes[priority]
            if lane is not None and (seq := lane.first()) is not None:
                return BacklogPosition(seq, priority)
        return None

    def oldest(self) -> int | None:
        """The smallest number that waits."""
        firsts = (lane.first() for lane in self._lanes if lane is not None)
        return min((seq for seq in firsts if seq is not None), default=None)

    def take(self) -> BacklogPosition | None:
        place = self.first()
        if place is not None:
            self.remove(place)
        return place

    def remove(self, place: BacklogPosition) -> None:
        """Take one that waits, from wherever it stands."""
        self._lane(place.priority).remove(place.seq)
        self._length -= 1

    def holds(self, place: BacklogPosition) -> bool:
        """True if it waits."""
        lane = self._lanes[place.priority]
        return lane is not None and lane.holds(place.seq)

    def scan(self, after: Sequence[int] = (0,) * PRIORITIES) -> Iterator[BacklogPosition]:
        """Messages that wait above the number `after` of their priority, in the order they would be taken."""
        for priority in _DOWNWARDS:
            lane = self._lanes[priority]
            if lane is not None:
                for seq in lane.scan(after[priority]):
                    yield BacklogPosition(seq, priority)

    def _lane(self, priority: int) -> _Lane:
        lane = self._lanes[priority]
        if lane is None:
            lane = self._lanes[priority] = _Lane()
        return lane
