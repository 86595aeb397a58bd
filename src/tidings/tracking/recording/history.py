"""A history: everything that passed one point, as Bloom filters in a row, each with the time it covers.

    stored                                      in memory
    (B1, R1, S1)  (B2, R2, S2)  (B3, R3, S3)    (B4, R4, S4) ◄── add(ids)

A filter B takes n ids. R is the range of their timestamps, S the timestamps of stragglers: retransmitted messages much
older than the filter, and those of publishers whose clock is ahead. They would stretch R over time that other filters
cover, and with it the *matching set* M(H, t), the filters to be asked for a message of time t. The error of an answer
is efpp = 1 − Π (1 − fpp) over the matching set, so M must stay small: see `bound`.

A filter is stored when it is full. After the persistence interval T_p it is stored even if it is not, because what is
in memory dies with the process. *Rotate* then begins a new filter; *retain* goes on filling the same one and stores it
again later under the same sequence number, with a higher count: the copy with the highest count is the one that
holds. Retain is the default: no half-empty filters on disk, and T_p cannot shorten a filter's life.

After Jun and Astley, "Low-Overhead Message Tracking for Distributed Messaging", sections 3.1 and 4.3.

>>> from tidings.model.message_id import MessageIdSource
>>> source = MessageIdSource(publisher=7, broker=1)
>>> ids = b"".join(bytes(source.next(now_ms=1000 + i)) for i in range(5))
>>> history = BloomHistory(Key(HistoryKind.PUBLISH, origin=1), BloomSettings(capacity=4, bits=640, hashes=8))
>>> [(entry.sequence, entry.span, entry.full) for entry in history.add(ids, now_ms=1005)]
[(0, (1000, 1003), True)]
>>> history.close(now_ms=2000)[0].span
(1004, 1004)
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from itertools import count
from typing import Protocol, TypeVar, assert_never

import numpy as np
from numpy.typing import NDArray

from tidings.errors import UsageError
from tidings.kernel.bloom import ID_BYTES, BloomFilter, check_shape, false_positive_probability
from tidings.kernel.exact_lists import LineFilter, RunIds
from tidings.kernel.hash64 import mix64
from tidings.tracking.ids import IdArray, Ids, as_ids, id_times
from tidings.tracking.moments import Span
from tidings.tracking.recording.log_codec import decode_ids, encode_ids

DOUBLINGS_MAX = 16
UNKNOWN_ORIGIN = 0  # under which ids are kept that name a broker which is not known


class HistoryKind(Enum):
    """Kinds of histories."""

    PUBLISH = "publish"  # H_P: messages of local publishers, by the broker that their ids name
    ROUTE = "route"  # H_b: messages that came from broker b
    FORWARD = "forward"  # H_{b,d}: … and went on to neighbour d
    DELIVER = "deliver"  # H_{b,s}: … and were delivered to subscriber s


class Mode(Enum):
    """Treatment of a filter that is not full when T_p has passed."""

    RETAIN = "retain"
    ROTATE = "rotate"


class FilterEncoding(Enum):
    BLOOM = "bloom"  # docs/wire.md, "Bloom filter"
    IDS = "ids"  # `log_codec`
    RUNS = "runs"  # docs/wire.md, "Run list": exact
    LINES = "lines"  # docs/wire.md, "Line filter"


@dataclass(frozen=True, slots=True)
class Key:
    """Names a history of a broker: kind, origin of the messages, and the neighbour or subscriber they went to."""

    kind: HistoryKind
    origin: int
    peer: str = ""


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """(B, R, S) as it is stored. Of several with the same key, incarnation and sequence the highest count holds."""

    key: Key
    sequence: int
    span: Span | None  # R; None if all are stragglers
    singles: tuple[int, ...]  # S, ascending
    count: int
    full: bool
    encoding: FilterEncoding
    data: bytes
    opened_ms: int  # by the broker's clock, like `stored_ms`
    stored_ms: int
    incarnation: int = 0  # of the broker's process that wrote it

    def matches(self, moment: int) -> bool:
        """Reports whether it belongs to the matching set of this time."""
        return (self.span is not None and self.span[0] <= moment <= self.span[1]) or moment in self.singles

    def opened(self) -> "Searchable":
        """The searchable filter; raises CodecError if the bytes are damaged."""
        match self.encoding:
            case FilterEncoding.BLOOM:
                return BloomFilter.from_bytes(self.data)
            case FilterEncoding.IDS:
                return ExactIds(decode_ids(self.data))
            case FilterEncoding.RUNS:
                return RunIds.from_bytes(self.data)
            case FilterEncoding.LINES:
                return LineFilter.from_bytes(self.data)
            case _:
                assert_never(self.encoding)


class Searchable(Protocol):
    """A filter, or a list of ids that behaves like a filter without errors."""

    def contains(self, ids: Ids) -> NDArray[np.bool_]: ...
    def fpp(self) -> float: ...


class ExactIds:
    def __init__(self, ids: IdArray) -> None:
        self._held = {row.tobytes() for row in ids}

    def contains(self, ids: Ids) -> NDArray[np.bool_]:
        return np.array([row.tobytes() in self._held for row in as_ids(ids)], dtype=np.bool_)

    def fpp(self) -> float:
        return 0.0


def seed_of(broker: int, kind: HistoryKind) -> int:
    """Of the filters of a broker's histories of one kind: what one of them claims falsely the others need not."""
    return mix64(broker << 8 | list(HistoryKind).index(kind) + 1)


class History(Protocol):
    """One point of recording, whatever the strategy. Ids are added in batches; what must be stored is returned."""

    @property
    def key(self) -> Key: ...
    @property
    def sequence(self) -> int:
        """Of the filter in memory; numbers of one process are never used twice."""

    @property
    def dirty(self) -> bool:
        """Reports whether it holds ids that are not stored yet."""

    @property
    def memory_bytes(self) -> int: ...
    @property
    def singles(self) -> Collection[int]:
        """S of the filter in memory."""

    def add(self, ids: Ids, now_ms: int) -> list[HistoryEntry]: ...
    def persist(self, now_ms: int) -> list[HistoryEntry]:
        """T_p has passed."""

    def close(self, now_ms: int) -> list[HistoryEntry]:
        """Store the current filter and start a new one."""

    def matching(self, moment: int) -> Searchable | None:
        """The filter in memory, if it belongs to the matching set of this time."""


@dataclass(frozen=True, slots=True)
class BloomSettings:
    """n, m, k; T_s, T_j; what to do on T_p. The defaults are the paper's 99.999 % in 8 KiB."""

    capacity: int = 2521
    bits: int = 65536
    hashes: int = 16
    skew_ms: int = 250
    jitter_ms: int = 0
    mode: Mode = Mode.RETAIN
    bits_max: int = 0  # the filters of a busy history may double up to this size

    def __post_init__(self) -> None:
        check_shape(self.bits, self.hashes)
        if self.capacity < 1:
            raise UsageError("E_TRACKING_CAPACITY", f"a filter's capacity must be at least 1, not {self.capacity}")
        if self.skew_ms < 0 or self.jitter_ms < 0:
            raise UsageError("E_TRACKING_TIME", "skew_ms and jitter_ms must not be negative")

    @property
    def young_max(self) -> int:
        """The number of ids kept exactly: no more than would fill a filter, or its room."""
        return min(self.bits // 8 // ID_BYTES, self.capacity - 1) if self.mode is Mode.RETAIN else 0

    @property
    def doublings(self) -> int:
        """The number of doublings."""
        return min(max((self.bits_max // self.bits).bit_length() - 1, 0), DOUBLINGS_MAX)

    @property
    def wanted_ms(self) -> int:
        """For how long a filter should be filled, for few of them to cover one time: see `bound`."""
        return 2 * self.skew_ms + self.jitter_ms + 1

    @property
    def fpp(self) -> float:
        """Of a full filter."""
        return false_positive_probability(self.bits, self.hashes, self.capacity)


class TimeRange:
    """R and S of the filter that is being filled, by the caller's clock."""

    def __init__(self, skew_ms: int, jitter_ms: int) -> None:
        self._late_ms, self._early_ms = skew_ms + jitter_ms, skew_ms
        self.clear()

    def clear(self) -> None:
        self.opened_ms: int | None = None
        self.span: Span | None = None
        self.singles: set[int] = set()

    def holds(self, moment: int) -> bool:
        return (self.span is not None and self.span[0] <= moment <= self.span[1]) or moment in self.singles

    def add(self, ids: IdArray, now_ms: int) -> None:
        if self.opened_ms is None:
            self.opened_ms = now_ms
        times = id_times(ids)
        oldest, newest = self.opened_ms - self._late_ms, now_ms + self._early_ms
        low, high = int(times.min()), int(times.max())
        if low < oldest or high > newest:
            inside = (times >= oldest) & (times <= newest)
            self.singles.update(times[~inside].tolist())
            if not inside.any():
                return
            times = times[inside]
            low, high = int(times.min()), int(times.max())
        self.span = (low, high) if self.span is None else (min(low, self.span[0]), max(high, self.span[1]))


class BloomHistory:
    """The strategy `bloom`: m bits in memory, whatever passes.

    A filter that is retained begins as the list of its ids, until they take as much room as its bits would: most
    histories are quiet, and stored again and again while they are nearly empty. Not so one that follows a full one.

    Filters that are filled faster than a message's time is known lie upon each other, and each of them may err: with
    `bits_max` the next one is twice as large. When less comes again, they become smaller.
    """

    def __init__(
        self,
        key: Key,
        settings: BloomSettings,
        incarnation: int = 0,
        numbers: Iterator[int] | None = None,
        seed: int = 0,
    ) -> None:
        self.key, self._seed = key, seed
        self._settings, self._incarnation = settings, incarnation
        self._numbers = count() if numbers is None else numbers
        self._filter: BloomFilter | None = None
        self._young = bytearray()  # ids, as long as there is no filter
        self._busy = False  # the filter before was full
        self._doublings = 0
        self._count = self._stored_count = 0
        self._range = TimeRange(settings.skew_ms, 0 if key.kind is HistoryKind.PUBLISH else settings.jitter_ms)
        self.sequence = next(self._numbers)

    @property
    def dirty(self) -> bool:
        return self._count > self._stored_count

    @property
    def singles(self) -> Collection[int]:
        return self._range.singles

    @property
    def memory_bytes(self) -> int:
        return len(self._young) + (0 if self._filter is None else self._filter.memory_bytes)

    def add(self, ids: Ids, now_ms: int) -> list[HistoryEntry]:
        left, stored = as_ids(ids), []
        while len(left):
            taken = left[: self._capacity - self._count]
            left = left[len(taken) :]
            self._count += len(taken)
            if self._filter is None and not self._busy and self._count <= self._settings.young_max:
                self._young += taken.tobytes()
            else:
                self._grow_up().add(taken)
            self._range.add(taken, now_ms)
            if self._count >= self._capacity:
                stored += self.close(now_ms)
        return stored

    @property
    def _capacity(self) -> int:
        return self._settings.capacity << self._doublings

    def _outgrows(self, now_ms: int) -> bool:
        """A large filter to which little comes any more: it would be stored again and again."""
        little = self._count - self._stored_count < self._settings.capacity
        return self._doublings > 0 and little and now_ms - self._opened_ms >= self._settings.wanted_ms

    def _next_doublings(self, now_ms: int) -> int:
        lasts = max(now_ms - self._opened_ms, 0) * self._capacity
        wanted = self._settings.wanted_ms * self._count
        if lasts < wanted:
            return min(self._doublings + 1, self._settings.doublings)
        smaller = (lasts // (4 * wanted)).bit_length()  # halvings after which it would still last twice as long
        return max(self._doublings - smaller, 0)

    def _grow_up(self) -> BloomFilter:
        if self._filter is None:
            self._filter = BloomFilter(self._settings.bits << self._doublings, self._settings.hashes, self._seed)
            self._filter.add(bytes(self._young))
            self._young.clear()
        return self._filter

    def persist(self, now_ms: int) -> list[HistoryEntry]:
        if not self.dirty:
            return []
        if self._settings.mode is Mode.ROTATE or self._outgrows(now_ms):
            return self.close(now_ms)
        self._stored_count = self._count
        return [self._entry(now_ms)]

    def close(self, now_ms: int) -> list[HistoryEntry]:
        if not self._count:
            return []
        stored = [self._entry(now_ms)] if self.dirty else []
        self._busy = self._count >= self._capacity
        self._doublings = self._next_doublings(now_ms)
        self._filter, self._count, self._stored_count = None, 0, 0
        self._young.clear()
        self._range.clear()
        self.sequence = next(self._numbers)
        return stored

    def matching(self, moment: int) -> Searchable | None:
        if not self._count or not self._range.holds(moment):
            return None
        return ExactIds(as_ids(bytes(self._young))) if self._filter is None else self._filter

    def _entry(self, now_ms: int) -> HistoryEntry:
        young = self._filter is None
        return HistoryEntry(
            key=self.key,
            sequence=self.sequence,
            span=self._range.span,
            singles=tuple(sorted(self._range.singles)),
            count=self._count,
            full=self._count >= self._capacity,
            encoding=FilterEncoding.IDS if young else FilterEncoding.BLOOM,
            data=encode_ids(as_ids(bytes(self._young))) if self._filter is None else self._filter.to_bytes(),
            opened_ms=self._opened_ms,
            stored_ms=now_ms,
            incarnation=self._incarnation,
        )

    @property
    def _opened_ms(self) -> int:
        assert self._range.opened_ms is not None
        return self._range.opened_ms


def efpp(fpps: Iterable[float]) -> float:
    """1 − Π (1 − fpp): how probably at least one filter of a matching set claims a message it does not hold.

    >>> f"{efpp([3.965e-6] * 2):.2e}"
    '7.93e-06'
    """
    return float(-np.expm1(sum(np.log1p(-fpp) if fpp < 1 else -np.inf for fpp in fpps))) + 0.0  # not −0


E = TypeVar("E", bound=HistoryEntry)


def newest(entries: Iterable[E]) -> list[E]:
    """Without copies that a later one of the same filter has replaced, in order of first appearance."""
    best: dict[tuple[Key, int, int], E] = {}
    for entry in entries:
        place = (entry.key, entry.incarnation, entry.sequence)
        if place not in best or entry.count > best[place].count:
            best[place] = entry
    return list(best.values())


def matching_set(entries: Iterable[HistoryEntry], moment: int) -> list[HistoryEntry]:
    """M(H, t)."""
    return [entry for entry in newest(entries) if entry.matches(moment)]
