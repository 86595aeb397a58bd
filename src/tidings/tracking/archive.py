"""Where stored entries are found again: the interface that queries use, and an archive in memory.

An archive answers one question: the matching set of a history at a time. The simulator and tests use the one here; the
broker's reads segments (`tidings.segments.archive`). Both are held to the same contract by `tidings.testing.tracking`.
"""

from collections.abc import Iterable, Mapping
from typing import Protocol

from tidings.tracking.history import Entry, Key, newest
from tidings.tracking.time_index import TimeIndex


class Archive(Protocol):
    @property
    def since_ms(self) -> int:
        """What is older may have been deleted."""

    def matching(self, broker: int, key: Key, moment: int) -> list[Entry]:
        """M(H, t) of what was stored: each filter once, its last copy; in the order of storing."""

    def stored_ms(self, broker: int) -> Mapping[int, int]:
        """When each incarnation of a broker last stored an entry."""


class MemoryArchive:
    """Everything stored so far. A copy that a later one replaces may stay: `newest` tells them apart."""

    def __init__(self, since_ms: int = 0) -> None:
        self.since_ms = since_ms
        self._histories: dict[tuple[int, Key], TimeIndex[Entry]] = {}
        self._entries: list[tuple[int, Entry]] = []
        self._stored_ms: dict[int, dict[int, int]] = {}

    def store(self, broker: int, entries: Iterable[Entry]) -> None:
        for entry in entries:
            self._entries.append((broker, entry))
            last_ms = self._stored_ms.setdefault(broker, {})
            last_ms[entry.incarnation] = max(last_ms.get(entry.incarnation, 0), entry.stored_ms)
            index = self._histories.setdefault((broker, entry.key), TimeIndex())
            index.add(entry, entry.span, entry.singles)

    def entries(self) -> list[tuple[int, Entry]]:
        """All of them with their brokers, in the order of storing."""
        return list(self._entries)

    def stored_ms(self, broker: int) -> Mapping[int, int]:
        return self._stored_ms.get(broker, {})

    def matching(self, broker: int, key: Key, moment: int) -> list[Entry]:
        index = self._histories.get((broker, key))
        return [] if index is None else newest(index.at(moment))
