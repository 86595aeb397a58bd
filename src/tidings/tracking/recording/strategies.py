"""Recording strategies: `runs`, `bloom`, `async` (an exact log) or `none`, behind one interface.

A strategy makes histories; all of them take ids in batches and return what is to be stored (`history.History`).

>>> strategy("async", buffer_bytes=160).open(Key(HistoryKind.ROUTE, origin=3)).add(bytes(16 * 10), now_ms=5)[0].count
10
>>> strategy("none").open(Key(HistoryKind.ROUTE, origin=3)).add(bytes(16 * 10), now_ms=5)
[]
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Protocol

from tidings.errors import UsageError
from tidings.kernel.exact_lists import LineFilter, RunIds, filter_bytes
from tidings.tracking.ids import IdArray, Ids, as_ids
from tidings.tracking.recording.history import (
    BloomHistory,
    BloomSettings,
    ExactIds,
    FilterEncoding,
    History,
    HistoryEntry,
    HistoryKind,
    Key,
    Searchable,
    TimeRange,
)
from tidings.tracking.recording.log_codec import encode_ids

ID_BYTES = 16
BLOOM_DEFAULT = BloomSettings()
RUN_IDS_MAX = 1 << 14
FILTER_IDS_MIN = 4096  # below it a list of runs is small enough, and exact


class Strategy(Protocol):
    @property
    def name(self) -> str: ...
    def open(self, key: Key, incarnation: int = 0, numbers: Iterator[int] | None = None, seed: int = 0) -> History:
        """`seed`: of its filters, if it makes any (`history.seed_of`)."""


@dataclass(frozen=True, slots=True)
class BloomStrategy:
    settings: BloomSettings = field(default_factory=BloomSettings)
    name: str = field(default="bloom", init=False)

    def open(self, key: Key, incarnation: int = 0, numbers: Iterator[int] | None = None, seed: int = 0) -> History:
        return BloomHistory(key, self.settings, incarnation, numbers, seed)


@dataclass(frozen=True, slots=True)
class RunStrategy:
    """Every id, as runs of ids that follow each other; stored as a filter only where that is smaller."""

    skew_ms: int = 250
    jitter_ms: int = 0
    capacity: int = RUN_IDS_MAX  # ids of one list
    name: str = field(default="runs", init=False)

    def __post_init__(self) -> None:
        if self.capacity < 1:
            raise UsageError("E_TRACKING_CAPACITY", f"a list's capacity must be at least 1, not {self.capacity}")

    def open(self, key: Key, incarnation: int = 0, numbers: Iterator[int] | None = None, seed: int = 0) -> History:
        span = TimeRange(self.skew_ms, 0 if key.kind is HistoryKind.PUBLISH else self.jitter_ms)
        return LogHistory(key, self.capacity, span, incarnation, numbers, partial(smallest, seed=seed))


@dataclass(frozen=True, slots=True)
class AsyncStrategy:
    """Every id as it is, in a buffer of limited size: no errors, more bytes, and the disk more often."""

    buffer_bytes: int = 10_000
    skew_ms: int = 250
    jitter_ms: int = 0
    name: str = field(default="async", init=False)

    def __post_init__(self) -> None:
        if self.buffer_bytes < ID_BYTES:
            raise UsageError(
                "E_TRACKING_BUFFER",
                f"a buffer must hold at least one id ({ID_BYTES} bytes), not {self.buffer_bytes} bytes",
            )

    def open(self, key: Key, incarnation: int = 0, numbers: Iterator[int] | None = None, seed: int = 0) -> History:
        span = TimeRange(self.skew_ms, 0 if key.kind is HistoryKind.PUBLISH else self.jitter_ms)
        return LogHistory(key, self.buffer_bytes // ID_BYTES, span, incarnation, numbers)


@dataclass(frozen=True, slots=True)
class NoStrategy:
    name: str = field(default="none", init=False)

    def open(self, key: Key, incarnation: int = 0, numbers: Iterator[int] | None = None, seed: int = 0) -> History:
        return NoHistory(key)


def strategy(name: str, bloom: BloomSettings = BLOOM_DEFAULT, buffer_bytes: int = 10_000) -> Strategy:
    """By its name in a configuration; skew and jitter of the settings hold for all."""
    match name:
        case "runs":
            return RunStrategy(bloom.skew_ms, bloom.jitter_ms)
        case "bloom":
            return BloomStrategy(bloom)
        case "async":
            return AsyncStrategy(buffer_bytes, bloom.skew_ms, bloom.jitter_ms)
        case "none":
            return NoStrategy()
        case _:
            raise UsageError("E_TRACKING_STRATEGY", f"unknown strategy {name!r}: use runs, bloom, async or none")


def smallest(ids: IdArray, seed: int) -> tuple[FilterEncoding, bytes]:
    """A run list or, of many ids, a filter where that is smaller by a quarter: exactness is worth that."""
    runs = RunIds.of(ids).to_bytes()
    if len(ids) < FILTER_IDS_MIN or 3 * len(runs) <= 4 * filter_bytes(len(ids)):
        return FilterEncoding.RUNS, runs
    return FilterEncoding.LINES, LineFilter.of(ids, seed).to_bytes()


def _packed(ids: IdArray) -> tuple[FilterEncoding, bytes]:
    return FilterEncoding.IDS, encode_ids(ids)


class LogHistory:
    """Ids in a buffer; stored when it is full or on T_p, always all of it."""

    def __init__(
        self,
        key: Key,
        capacity: int,
        span: TimeRange,
        incarnation: int = 0,
        numbers: Iterator[int] | None = None,
        encode: Callable[[IdArray], tuple[FilterEncoding, bytes]] | None = None,
    ) -> None:
        self.key, self._encode = key, encode or _packed
        self._capacity, self._range, self._incarnation = capacity, span, incarnation
        self._buffer = bytearray()
        self._numbers = count() if numbers is None else numbers
        self.sequence = next(self._numbers)

    @property
    def dirty(self) -> bool:
        return bool(self._buffer)

    @property
    def singles(self) -> Collection[int]:
        return self._range.singles

    @property
    def memory_bytes(self) -> int:
        return len(self._buffer)

    def add(self, ids: Ids, now_ms: int) -> list[HistoryEntry]:
        left, stored = as_ids(ids), []
        while len(left):
            taken = left[: self._capacity - len(self._buffer) // ID_BYTES]
            left = left[len(taken) :]
            self._buffer += taken.tobytes()
            self._range.add(taken, now_ms)
            if len(self._buffer) >= self._capacity * ID_BYTES:
                stored += self.close(now_ms)
        return stored

    def persist(self, now_ms: int) -> list[HistoryEntry]:
        return self.close(now_ms)

    def close(self, now_ms: int) -> list[HistoryEntry]:
        if not self._buffer:
            return []
        entry = self._entry(now_ms)
        self._buffer.clear()
        self._range.clear()
        self.sequence = next(self._numbers)
        return [entry]

    def matching(self, moment: int) -> Searchable | None:
        return ExactIds(as_ids(bytes(self._buffer))) if self._range.holds(moment) else None

    def _entry(self, now_ms: int) -> HistoryEntry:
        ids = as_ids(bytes(self._buffer))
        assert self._range.opened_ms is not None
        encoding, data = self._encode(ids)
        return HistoryEntry(
            key=self.key,
            sequence=self.sequence,
            span=self._range.span,
            singles=tuple(sorted(self._range.singles)),
            count=len(ids),
            full=len(ids) >= self._capacity,
            encoding=encoding,
            data=data,
            opened_ms=self._range.opened_ms,
            stored_ms=now_ms,
            incarnation=self._incarnation,
        )


class NoHistory:
    """Remembers nothing."""

    dirty, memory_bytes, sequence = False, 0, 0
    singles: Collection[int] = ()

    def __init__(self, key: Key) -> None:
        self.key = key

    def add(self, ids: Ids, now_ms: int) -> list[HistoryEntry]:
        return []

    def persist(self, now_ms: int) -> list[HistoryEntry]:
        return []

    def close(self, now_ms: int) -> list[HistoryEntry]:
        return []

    def matching(self, moment: int) -> Searchable | None:
        return None
