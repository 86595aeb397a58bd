"""A retained subscription: messages that stay to be read again, from any offset, until they are old or too many.

It is a mailbox without consumers. A message's offset is its number in the store, so offsets rise, survive restarts and
have gaps. Nothing is given out: readers ask for what lies after an offset, as often as they like, and say how far it
may be forgotten.

Age and size are kept for *pieces*, about a 64th of what may stay, not for messages: a piece is a last offset, a time
and a number of bytes, and goes as a whole. The list of pieces is small enough to be stored with each new one. What
came after the last piece that was stored is less than one, which is what a restart takes it for.

>>> kept = Retained(7, "retained:audit", Depot(1 << 20), Retention(age_ms=60_000, bytes_max=6400))
>>> for seq in range(1, 9): kept.offer(Place(seq, 4), size=1000)
>>> kept.look(now_ms=1000), kept.over(now_ms=1000), kept.over(now_ms=70_000)
(True, 2, 8)
>>> kept.release(2), kept.range, kept.after(4, 2)
([1, 2], (2, 8), [5, 6])
"""

import json
from collections import deque
from dataclasses import asdict, dataclass
from itertools import islice
from typing import NamedTuple

from tidings.delivery.backlog import PRIORITIES, Place
from tidings.delivery.depot import Depot
from tidings.delivery.mailbox import NEW, Mailbox, MailboxKind, Tries
from tidings.errors import UsageError

PIECES = 64


@dataclass(frozen=True, slots=True)
class Retention:
    """How long messages stay; `destination` is what they were subscribed from."""

    age_ms: int = 0  # 0: whatever their age
    bytes_max: int = 0
    destination: str = ""

    def __post_init__(self) -> None:
        if self.age_ms < 0 or self.bytes_max < PIECES:
            raise UsageError("E_RETAIN_LIMIT", f"an age is not negative, a size at least {PIECES} bytes")

    def to_bytes(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> "Retention":
        return cls(**json.loads(data))


class Piece(NamedTuple):
    last: int
    ms: int
    bytes: int


class Retained(Mailbox):
    def __init__(self, number: int, name: str, depot: Depot, retention: Retention) -> None:
        super().__init__(number, name, MailboxKind.RETAINED, depot)
        self.retention = retention
        self._pieces: deque[Piece] = deque()
        self._open_bytes = 0
        self._open_ms: int | None = None  # when the piece that grows was first looked at
        self._finished = 0  # pieces since `look`
        self._last = self._released = 0

    def offer(self, place: Place, *, size: int = 0, tries: Tries = NEW) -> None:
        self.backlog.add(Place(place.seq, 0))  # in the order of offsets, whatever the priority
        self._last = place.seq
        self._open_bytes += size
        if self._open_bytes * PIECES >= self.retention.bytes_max:
            self._close_piece()

    def finish(self, seq: int) -> None:
        """Its messages are the store's alone: there is nothing to let go."""

    @property
    def range(self) -> tuple[int, int]:
        """Everything up to the first may be forgotten; the second is the last offset there is."""
        first = self.backlog.first()
        return (max(self._last, self._released) if first is None else first.seq - 1), max(self._last, self._released)

    def after(self, offset: int, count: int) -> list[int]:
        return [place.seq for place in islice(self.backlog.scan((offset,) * PRIORITIES), count)]

    def holds(self, seq: int) -> bool:
        return self.after(seq - 1, 1) == [seq]

    def look(self, now_ms: int) -> bool:
        """About once a second: whether pieces were finished since, so that `marks` are to be stored."""
        if self._open_ms is None or not self._open_bytes:
            self._open_ms = now_ms
        if self._open_bytes and 0 < self.retention.age_ms <= (now_ms - self._open_ms) * PIECES:
            self._close_piece()
        finished, self._finished = self._finished, 0
        for place in range(len(self._pieces) - min(finished, len(self._pieces)), len(self._pieces)):
            self._pieces[place] = self._pieces[place]._replace(ms=now_ms)
        return finished > 0

    def _close_piece(self) -> None:
        self._pieces.append(Piece(self._last, 0, self._open_bytes))  # `look` tells the time
        self._open_bytes, self._open_ms = 0, None
        self._finished += 1

    def over(self, now_ms: int) -> int:
        """Up to which offset messages must go; 0: none."""
        kept = sum(piece.bytes for piece in self._pieces) + self._open_bytes
        gone = 0
        for last, ms, size in self._pieces:
            too_old = 0 < self.retention.age_ms < now_ms - ms
            if not too_old and kept <= self.retention.bytes_max:
                break
            gone, kept = last, kept - size
        return gone

    def release(self, offset: int) -> list[int]:
        """Forget all up to an offset; returns what that was."""
        gone: list[int] = []
        while (place := self.backlog.first()) is not None and place.seq <= offset:
            self.backlog.remove(place)
            gone.append(place.seq)
        while self._pieces and self._pieces[0].last <= offset:
            self._pieces.popleft()
        self._released = max(self._released, min(offset, self._last))
        return gone

    def forget(self, seq: int) -> None:
        """One of them, which cannot be read any more."""
        self.backlog.remove(Place(seq, 0))

    def marks(self) -> bytes:
        return json.dumps([list(self._pieces), self._last]).encode()

    def restore(self, marks: bytes, last_seq: int) -> None:
        """After a restart, once what waits has been offered: pieces as they were stored, and one for the rest.

        What an earlier subscription of this name has left in the notes speaks of offsets that are not there.
        """
        pieces, last = json.loads(marks) if marks else ([], 0)
        first = self.backlog.oldest()
        known = [Piece(*one) for one in pieces]
        self._pieces = deque(one for one in known if first is not None and first <= one.last <= self._last)
        self._finished = sum(one.ms == 0 for one in self._pieces)
        self._released = self._last = max(self._last, min(last, last_seq))
        rest = first is not None and self._last > (self._pieces[-1].last if self._pieces else 0)
        self._open_bytes = self.retention.bytes_max // PIECES if rest else 0
