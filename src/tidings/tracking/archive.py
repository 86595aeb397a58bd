"""Where stored entries are found again: the interface that queries use, and an archive in memory.

An archive answers one question: the matching set of a history at a time. The simulator and tests use the one here; the
broker's reads segments (`tidings.segments.archive`). Both are held to the same contract by `tidings.testing.tracking`.
"""

from collections.abc import Iterable
from typing import Protocol

from tidings.tracking.history import Entry, Key, newest
from tidings.tracking.time_index import TimeIndex


class Archive(Protocol):
    @property
    def since_ms(self) -> int:
        """What is older may have been deleted."""

    def matching(self, broker: int, key: Key, moment: int) -> list[Entry]:
        """M(H, t) of what was stored: each filter once, its last copy; in the order of storing."""


class MemoryArchive:
    """Everything stored so far. A copy that a later one replaces may stay: `newest` tells them apart."""

    def __init__(self, since_ms: int = 0) -> None:
        self.since_ms = since_ms
        self._histories: dict[tuple[int, Key], TimeIndex[Entry]] = {}

    def store(self, broker: int, entries: Iterable[Entry]) -> None:
        for entry in entries:
            index = self._histories.setdefault((broker, entry.key), TimeIndex())
            index.add(entry, entry.span, entry.singles)

    def matching(self, broker: int, key: Key, moment: int) -> list[Entry]:
        index = self._histories.get((broker, key))
        return [] if index is None else newest(index.at(moment))
