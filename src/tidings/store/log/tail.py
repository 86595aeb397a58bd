"""The last batches of the log, which stay when all in them is dead.

A process that starts reads from them which messages were stored last, also those that were acknowledged before: what
publishers send again, because they saw no receipt, is known by that.
"""

from collections import deque
from dataclasses import dataclass

MOVED_SHARE = 4  # how much larger the tail may be by what was moved


@dataclass(frozen=True, slots=True)
class TailLimits:
    """The size of the tail: whichever of these is reached first ends it."""

    messages: int = 16_384
    bytes: int = 4 << 20
    batches: int = 4_096


class LogTail:
    """Old messages that were moved to a young batch do not count, unless they are most of it."""

    def __init__(self, limits: TailLimits) -> None:
        self._limits = limits
        self._batches: deque[tuple[int, int, int, int]] = deque()  # number, messages, bytes, those of new messages
        self._messages = self._new_bytes = self.bytes = 0

    def __len__(self) -> int:
        return len(self._batches)

    @property
    def first(self) -> int | None:
        """The oldest batch in it; None: it is empty."""
        return self._batches[0][0] if self._batches else None

    def add(self, number: int, messages: int, size: int, new_bytes: int) -> None:
        self._batches.append((number, messages, size, new_bytes))
        self._messages += messages
        self.bytes += size
        self._new_bytes += new_bytes
        limits = self._limits
        while self._batches and (
            self._new_bytes > limits.bytes
            or self.bytes > MOVED_SHARE * limits.bytes
            or len(self._batches) > limits.batches
            or self._messages - self._batches[0][1] >= limits.messages
        ):
            self._leave()

    def clear(self) -> None:
        while self._batches:
            self._leave()

    def _leave(self) -> None:
        _, messages, size, new_bytes = self._batches.popleft()
        self._messages -= messages
        self.bytes -= size
        self._new_bytes -= new_bytes
