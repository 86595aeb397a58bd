"""A retained subscription: messages that stay to be read again, from any offset, until they are old or too many.

It is a mailbox without consumers. A message's offset is its number in the store, so offsets rise, survive restarts and
have gaps. Nothing is given out: readers ask for what lies after an offset, as often as they like, and say how far it
may be forgotten.

Age and size are kept for *pieces*, about a 64th of what may stay, not for messages: a piece is a last offset, a time
and a number of bytes, and goes as a whole. The list of pieces is small enough to be stored with each new one. What
came after the last piece that was stored is less than one, which is what a restart takes it for.

>>> kept = RetainedMailbox(7, "retained:audit", MessageCache(1 << 20), Retention(age_ms=60_000, bytes_max=6400))
>>> for seq in range(1, 9): kept.offer(BacklogPosition(seq, 4), size=1000)
>>> kept.look(now_ms=1000), kept.over(now_ms=1000), kept.over(now_ms=70_000)
(True, 2, 8)
>>> kept.release(2), kept.range, kept.after(4, 2)
([1, 2], (2, 8), [5, 6])

What is gone is stated by the last message that is, not by the first that is left: the numbers between two messages are
those of other mailboxes, and nobody has missed anything there. A message that was given up in the middle is remembered
by itself.
"""

import json
from bisect import bisect_right, insort
from collections import deque
from dataclasses import asdict, dataclass
from itertools import islice
from typing import NamedTuple

from tidings.delivery.backlog import PRIORITIES, BacklogPosition
from tidings.delivery.mailbox import NEW, Mailbox, MailboxKind, Tries
from tidings.delivery.message_cache import MessageCache
from tidings.errors import UsageError

PIECES = 64


@dataclass(frozen=True, slots=True)
class Retention:
    """The time for which messages are kept; `destination` is the destination of the subscription."""

    age_ms: int = 0  # 0: whatever their age
    bytes_max: int = 0
    destination: str = ""
    last: bool = False  # only the last message of each topic (`last_values`)
    made_ms: int = 0  # when it was made: another time means other offsets under the same name

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


class RetainedMailbox(Mailbox):
    def __init__(self, number: int, name: str, message_cache: MessageCache, retention: Retention) -> None:
        super().__init__(number, name, MailboxKind.RETAINED, message_cache)
        self.retention = retention
        self._pieces: deque[Piece] = deque()
        self._open_bytes = 0
        self._open_ms: int | None = None  # when the piece that grows was first looked at
        self._finished = 0  # pieces since `look`
        self._last = 0
        self._released = 0  # the last one that was dropped; all that are kept are above it
        self._lost: list[int] = []  # those given up that are still above one that is kept

    def offer(self, place: BacklogPosition, *, size: int = 0, tries: Tries = NEW) -> None:
        self.backlog.add(BacklogPosition(place.seq, 0))  # in the order of offsets, whatever the priority
        self._last = max(self._last, place.seq)
        self._open_bytes += size
        if self._open_bytes * PIECES >= self.retention.bytes_max:
            self._close_piece()

    def finish(self, seq: int) -> None:
        """Its messages are the store's alone: there is nothing to let go."""

    @property
    def range(self) -> tuple[int, int]:
        """The last offset that was dropped with all before it, and the last there is."""
        return self._released, self._last

    def gone(self, after: int, up_to: int) -> int:
        """The last offset that is gone, of those up to another; if above `after`, who stands there has missed it."""
        place = bisect_right(self._lost, up_to)
        lost = self._lost[place - 1] if place else 0
        return max(self._released, lost if lost > after else 0)

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
        self._released = max(self._released, *gone[-1:], 0)
        self._settle_lost()
        return gone

    def forget(self, seq: int) -> None:
        """One of them, which cannot be read any more."""
        self.backlog.remove(BacklogPosition(seq, 0))
        insort(self._lost, seq)
        self._settle_lost()

    def _settle_lost(self) -> None:
        """Merge lost messages with no kept message before them into the common lower end."""
        oldest = self.backlog.oldest()
        while self._lost and (oldest is None or self._lost[0] < oldest):
            self._released = max(self._released, self._lost.pop(0))

    def begin(self, after: int) -> None:
        """In the place of an earlier one of this name, which has kept messages up to there: they are gone."""
        self._last = self._released = after

    def marks(self) -> bytes:
        return json.dumps([list(self._pieces), self._last, self._released, self._lost]).encode()

    def restore(self, marks: bytes, last_seq: int, *, damaged: bool = False) -> None:
        """After a restart, once what waits has been offered: pieces as they were stored, and one for the rest.

        What was dropped is exact: marks are stored in one batch with the acknowledgement of what they call dropped, so
        a crash loses both, and the messages are back, or none. Without marks nothing was ever dropped. Only where that
        cannot be trusted, because the store was damaged or the marks are of a time when they did not tell, everything
        below the oldest counts as dropped. That errs towards a loss that was none, and never hides one there.

        What an earlier subscription of this name has left in the notes speaks of offsets that are not there.
        """
        pieces, last, *dropped = json.loads(marks) if marks else ([], 0, 0, [])
        first = self.backlog.oldest()
        known = [Piece(*one) for one in pieces]
        self._pieces = deque(one for one in known if first is not None and first <= one.last <= self._last)
        self._finished = sum(one.ms == 0 for one in self._pieces)
        self._last = max(self._last, min(last, last_seq))
        if dropped:
            self._released, self._lost = min(dropped[0], self._last), list(dropped[1])
        if damaged or not dropped:
            self._released = max(self._released, self._last if first is None else first - 1)
        self._settle_lost()
        rest = first is not None and self._last > (self._pieces[-1].last if self._pieces else 0)
        self._open_bytes = self.retention.bytes_max // PIECES if rest else 0
