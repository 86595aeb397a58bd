"""Counts publications that have no receipt, and how many of them the broker has surely read.

The broker answers each PING in its turn: when the PONG comes, everything written before the PING was read. Heartbeats
are such questions already; `Client.close` and a client that publishes to its own subscriptions ask more often.

>>> progress = Progress()
>>> progress.sent = 2
>>> progress.asked()
>>> progress.sent = 3
>>> progress.answered()
>>> progress.unread
1
"""

from collections import deque
from collections.abc import Callable


class Progress:
    """Of one connection."""

    def __init__(self) -> None:
        self.sent = 0
        self._read = 0
        self._asked: deque[tuple[int, Callable[[], None] | None]] = deque()

    @property
    def unread(self) -> int:
        """Publications that the broker may not have read."""
        return self.sent - self._read

    @property
    def covered(self) -> bool:
        """True if a pending PONG will prove that all were read."""
        return bool(self._asked) and self._asked[-1][0] == self.sent

    def asked(self, then: Callable[[], None] | None = None) -> None:
        """A PING is about to be written; `then` is called when its answer has come."""
        self._asked.append((self.sent, then))

    def answered(self) -> None:
        """A PONG has come. One that nobody asked for means nothing."""
        if self._asked:
            self._read, then = self._asked.popleft()
            if then is not None:
                then()
