"""Delays before a message is delivered again, as a policy asks for them.

A message that was rejected, rolled back or was with a consumer that went away waits before it is given out again: it
stays in its place in the backlog, where it can be looked at, moved and deleted, and is passed over until its time has
come. The delay follows from how often the message was tried, which the store keeps, so a restart begins it again and
never shortens it.

>>> backoff = Backoff(first_ms=100, factor=2.0, most_ms=500)
>>> [backoff.delay_ms(tried, 7) for tried in range(1, 6)]
[100, 200, 400, 500, 500]
>>> 50 <= Backoff(first_ms=100, jitter=0.5).delay_ms(1, 7) <= 100
True
"""

from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Generic, TypeVar
from zlib import crc32

from tidings.delivery.backlog import BacklogPosition

DELAY_MS_MAX = 1 << 42


@dataclass(frozen=True, slots=True)
class Backoff:
    first_ms: int = 0  # 0: no delay
    factor: float = 2.0
    most_ms: int = 0  # 0: any
    jitter: float = 0.0  # share by which a delay may be shortened: what failed together is spread

    def delay_ms(self, tried: int, seq: int) -> int:
        """The delay of a message that was tried so often, at least once; the same whenever it is asked for."""
        most = self.most_ms or DELAY_MS_MAX
        try:
            delay = min(self.first_ms * self.factor ** (tried - 1), most)
        except OverflowError:
            delay = most if self.first_ms else 0
        share = crc32(b"%d %d" % (seq, tried)) / 0xFFFFFFFF
        return round(delay * (1 - self.jitter * share))

    def least_ms(self, tried: int) -> int:
        """The shortest delay that jitter allows."""
        return int(Backoff(self.first_ms, self.factor, self.most_ms).delay_ms(tried, 0) * (1 - self.jitter))


@dataclass(slots=True)
class RestingMessages:
    """The messages of one mailbox that wait for their time."""

    _due_ms: dict[int, int] = field(default_factory=dict)  # by number; 0: its delay has not begun
    _fresh: list[tuple[BacklogPosition, int]] = field(default_factory=list)  # with their delays
    _by_time: list[tuple[int, BacklogPosition]] = field(default_factory=list)  # a heap; may name what has left

    def __len__(self) -> int:
        return len(self._due_ms)

    def __contains__(self, seq: int) -> bool:
        return seq in self._due_ms

    def add(self, place: BacklogPosition, delay_ms: int) -> None:
        """Its delay begins when `pass_time` is called next."""
        self._due_ms[place.seq] = 0
        self._fresh.append((place, delay_ms))

    def forget(self, seq: int) -> None:
        self._due_ms.pop(seq, None)

    def pass_time(self, now_ms: int) -> list[BacklogPosition]:
        """Advances the clock; returns the messages whose delay has ended."""
        for place, delay_ms in self._fresh:
            if self._due_ms.get(place.seq) == 0:
                self._due_ms[place.seq] = now_ms + delay_ms
                heappush(self._by_time, (now_ms + delay_ms, place))
        self._fresh.clear()
        due = []
        while self._by_time and self._by_time[0][0] <= now_ms:
            at, place = heappop(self._by_time)
            if self._due_ms.get(place.seq) == at:
                del self._due_ms[place.seq]
                due.append(place)
        return due

    def release(self) -> list[int]:
        """Nothing waits for its time any more."""
        seqs = list(self._due_ms)
        self._due_ms.clear()
        self._fresh.clear()
        self._by_time.clear()
        return seqs

    @property
    def due_ms(self) -> int | None:
        """The earliest time at which something may be given out; None: nothing rests."""
        if not self._due_ms:
            return None
        while self._by_time and self._due_ms.get(self._by_time[0][1].seq) != self._by_time[0][0]:
            heappop(self._by_time)
        return self._by_time[0][0] if self._by_time else 0


M = TypeVar("M")
NEVER_MS = 1 << 62


class RedeliveryTimes(Generic[M]):
    """The mailboxes in which something rests, and when to look at them again."""

    def __init__(self) -> None:
        self.earliest_ms = NEVER_MS
        self._due_ms: dict[M, int] = {}

    def note(self, mailbox: M, due_ms: int | None) -> None:
        """None: nothing rests there."""
        if due_ms is None:
            self._due_ms.pop(mailbox, None)
        else:
            self._due_ms[mailbox] = due_ms
            self.earliest_ms = min(self.earliest_ms, due_ms)

    def due(self, now_ms: int) -> list[M]:
        found = [mailbox for mailbox, due_ms in self._due_ms.items() if due_ms <= now_ms]
        for mailbox in found:
            del self._due_ms[mailbox]
        self.earliest_ms = min(self._due_ms.values(), default=NEVER_MS)
        return found
