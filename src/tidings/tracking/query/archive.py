"""Interface for looking up stored entries, and an archive in memory.

An archive answers one question: the matching set of a history at a time. The simulator and tests use the one here; the
broker's reads segments (`tidings.segments.tracking`). Both are held to the same contract by
`hardening.support.tracking`.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Generic, Protocol, TypeAlias, TypeVar

from tidings.tracking.moments import Span
from tidings.tracking.query.time_index import TimeIndex
from tidings.tracking.recording.history import HistoryEntry, HistoryKind, Key, newest
from tidings.tracking.recording.key_notes import KeyBatch, answered, encode_keys, find_key
from tidings.tracking.trace_answer import KeyAnswer, KeyQuery

T = TypeVar("T")
Times: TypeAlias = Sequence[int]


class Archive(Protocol):
    @property
    def since_ms(self) -> int:
        """The time before which records may have been deleted."""

    def matching(self, broker: int, key: Key, moment: int) -> list[HistoryEntry]:
        """M(H, t) of what was stored: each filter once, its last copy."""

    def stragglers(self, broker: int, origin: int, moment: int) -> list[str]:
        """Subscribers of a broker with a stored filter in which a message of this origin and time is a straggler."""

    def stored_ms(self, broker: int) -> Mapping[int, int]:
        """The time of the last entry that each incarnation of a broker stored."""


class KeyArchive(Protocol):
    def find_key(self, broker: int, query: KeyQuery) -> KeyAnswer:
        """The messages with a value of an attribute, as far as such notes are stored."""


class RecordArchive(Archive, KeyArchive, Protocol):
    """All that a broker stores of messages."""


class FilterIndex(Generic[T]):
    """The stored filters of one history by time: the last copy of each, whatever stands for a filter.

    A filter that is retained is stored again and again while it grows; each copy takes the place of the one before, so
    that a query finds one of them and not thousands.
    """

    def __init__(self) -> None:
        self._index = TimeIndex[T]()
        self._growing: dict[tuple[int, int], tuple[int, int]] = {}  # number and count of the copy that is indexed

    def add(self, item: T, which: tuple[int, int], count: int, full: bool, span: Span | None, singles: Times) -> None:
        """`which`: its incarnation and sequence."""
        number, before = self._growing.pop(which, (-1, -1))
        if before >= count:
            self._growing[which] = (number, before)
            return
        if number >= 0:
            self._index.remove(number)
        number = self._index.add(item, span, singles)
        if not full:
            self._growing[which] = (number, count)

    def at(self, moment: int) -> list[T]:
        return self._index.at(moment)


class MemoryArchive:
    """Everything that was stored."""

    def __init__(self, since_ms: int = 0) -> None:
        self.since_ms = since_ms
        self._histories: dict[tuple[int, Key], FilterIndex[HistoryEntry]] = {}
        self._entries: list[tuple[int, HistoryEntry]] = []
        self._stored_ms: dict[int, dict[int, int]] = {}
        self._keys: dict[tuple[int, str], list[bytes]] = {}

    def store(self, broker: int, entries: Iterable[HistoryEntry]) -> None:
        for entry in entries:
            self._entries.append((broker, entry))
            last_ms = self._stored_ms.setdefault(broker, {})
            last_ms[entry.incarnation] = max(last_ms.get(entry.incarnation, 0), entry.stored_ms)
            index = self._histories.setdefault((broker, entry.key), FilterIndex())
            which = (entry.incarnation, entry.sequence)
            index.add(entry, which, entry.count, entry.full, entry.span, entry.singles)

    def entries(self) -> list[tuple[int, HistoryEntry]]:
        """All of them with their brokers, in the order of storing."""
        return list(self._entries)

    def stored_ms(self, broker: int) -> Mapping[int, int]:
        return self._stored_ms.get(broker, {})

    def store_keys(self, broker: int, batches: Iterable[KeyBatch]) -> None:
        for batch in batches:
            self._keys.setdefault((broker, batch.name), []).append(encode_keys([batch]))

    def find_key(self, broker: int, query: KeyQuery) -> KeyAnswer:
        return answered(broker, query, find_key(self._keys.get((broker, query.name), ()), query))

    def stragglers(self, broker: int, origin: int, moment: int) -> list[str]:
        own = [
            (of, key)
            for of, key in self._histories
            if (of, key.kind, key.origin) == (broker, HistoryKind.DELIVER, origin)
        ]
        found = ((key.peer, entry) for of, key in own for entry in self._histories[of, key].at(moment))
        return sorted({peer for peer, entry in found if moment in entry.singles})

    def matching(self, broker: int, key: Key, moment: int) -> list[HistoryEntry]:
        index = self._histories.get((broker, key))
        return [] if index is None else newest(index.at(moment))
