"""The histories of one broker that are in memory: kept in plain Python, or by the kernel on the path of the messages.

Both have one face, `RecorderBackend`: ids go in under a kind and a peer, entries that must be stored come out when
they are full
or their persistence interval T_p has passed, and the filter in memory answers for what it holds. The plain ones are for
the machines of tests and of the simulator's small worlds, and say what the kernel's must do.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Protocol

import numpy as np

from tidings.errors import UsageError
from tidings.kernel.bloom import false_positive_probability
from tidings.kernel.tracker import TrackedFilter, Tracker
from tidings.model.message_id import MessageId
from tidings.tracking.ids import Ids, as_ids, id_origins
from tidings.tracking.recording.history import (
    UNKNOWN_ORIGIN,
    FilterEncoding,
    History,
    HistoryEntry,
    HistoryKind,
    Key,
    Mode,
    seed_of,
)
from tidings.tracking.recording.key_notes import KeyBatch
from tidings.tracking.recording.log_codec import encode_ids
from tidings.tracking.recording.losses import LossCause, loss_peer, split_peer
from tidings.tracking.recording.strategies import ID_BYTES, AsyncStrategy, BloomStrategy, RunStrategy, Strategy

LOSS_BIT, LOSS_SHIFT = 1 << 31, 28  # of a peer in the kernel whose history is of losses
_LOSSES = tuple(LossCause)


@dataclass(frozen=True, slots=True)
class Current:
    """The answer of the filter in memory about a message whose time it covers."""

    sequence: int
    held: bool
    fpp: float


class RecorderBackend(Protocol):
    @property
    def memory_bytes(self) -> int: ...
    def add(self, kind: HistoryKind, peer: str, ids: Ids, now_ms: int) -> None: ...
    def take(self, now_ms: int, *, full: bool = True) -> list[HistoryEntry]:
        """Entries of which T_p has passed, and those that are full; `full=False`: these may wait for company."""

    def end(self, kind: HistoryKind, peer: str, now_ms: int) -> list[HistoryEntry]:
        """The histories of this peer will not grow any more."""

    def end_all(self, now_ms: int) -> list[HistoryEntry]: ...
    def find(self, key: Key, message: MessageId, now_ms: int) -> Current | None: ...
    def know_brokers(self, brokers: Iterable[int]) -> None:
        """The brokers that ids may name, beside those given before. Ids that name others are kept under the origin 0,
        or anybody could make histories without end. Until the first call every broker counts."""

    def stragglers(self, message: MessageId, now_ms: int) -> list[str]:
        """Subscribers that may have been given it long after its time: it is a straggler in their filters."""

    def take_keys(self) -> list[KeyBatch]:
        """Takes what was noted of messages with certain attributes since the last call."""


class PlainBackend:
    def __init__(
        self, broker: int, strategy: Strategy, incarnation: int, *, persist_ms: int = 1000, forwards: bool = False
    ) -> None:
        self._broker, self._strategy, self._incarnation = broker, strategy, incarnation
        self._persist_ms, self._forwards = persist_ms, forwards
        self._numbers = count()
        self._histories: dict[Key, History] = {}
        self._due: dict[Key, int] = {}  # dirty histories and when T_p has passed; in that order, T_p being the same
        self._full: list[HistoryEntry] = []
        self._now_ms = 0
        self._brokers: set[int] | None = None  # None: all

    @property
    def memory_bytes(self) -> int:
        return sum(history.memory_bytes for history in self._histories.values())

    @property
    def next_ms(self) -> int | None:
        """The time at which `take` returns an entry."""
        return next(iter(self._due.values()), None)

    def add(self, kind: HistoryKind, peer: str, ids: Ids, now_ms: int) -> None:
        array = as_ids(ids)
        if not len(array) or (kind is HistoryKind.FORWARD and not self._forwards):
            return
        origins = id_origins(array)
        if self._brokers is not None:
            origins = np.where(np.isin(origins, sorted(self._brokers)), origins, UNKNOWN_ORIGIN)
        for origin in np.unique(origins).tolist():
            self._add(Key(kind, origin, peer), array[origins == origin], now_ms)

    def take(self, now_ms: int, *, full: bool = True) -> list[HistoryEntry]:
        self._clock(now_ms)
        stored, self._full = self._full, []
        while (due_ms := self.next_ms) is not None and due_ms <= now_ms:
            key = next(iter(self._due))
            del self._due[key]
            stored += self._histories[key].persist(now_ms)
        return stored

    def end(self, kind: HistoryKind, peer: str, now_ms: int) -> list[HistoryEntry]:
        return self._end([key for key in self._histories if (key.kind, key.peer) == (kind, peer)], now_ms)

    def end_all(self, now_ms: int) -> list[HistoryEntry]:
        return self._end(list(self._histories), now_ms)

    def find(self, key: Key, message: MessageId, now_ms: int) -> Current | None:
        history = self._histories.get(key)
        found = None if history is None else history.matching(message.ms)
        if history is None or found is None:
            return None
        return Current(history.sequence, bool(found.contains(bytes(message))[0]), found.fpp())

    def know_brokers(self, brokers: Iterable[int]) -> None:
        self._brokers = {self._broker, *(self._brokers or ()), *brokers}

    def stragglers(self, message: MessageId, now_ms: int) -> list[str]:
        origins = (message.broker, UNKNOWN_ORIGIN)
        keys = [key for key in self._histories if key.kind is HistoryKind.DELIVER and key.origin in origins]
        return [key.peer for key in keys if message.ms in self._histories[key].singles]

    def take_keys(self) -> list[KeyBatch]:
        return []  # it sees ids, not messages

    def _end(self, keys: Iterable[Key], now_ms: int) -> list[HistoryEntry]:
        self._clock(now_ms)
        stored, self._full = self._full, []
        for key in keys:
            self._due.pop(key, None)
            stored += self._histories.pop(key).close(now_ms)
        return stored

    def _clock(self, now_ms: int) -> None:
        if now_ms < self._now_ms:  # it was set back: deadlines of the old time may never come
            latest_ms = now_ms + self._persist_ms
            self._due = {key: min(due_ms, latest_ms) for key, due_ms in self._due.items()}
        self._now_ms = now_ms

    def _add(self, key: Key, ids: Ids, now_ms: int) -> None:
        self._clock(now_ms)
        history = self._histories.get(key)
        if history is None:
            history = self._histories[key] = self._strategy.open(
                key, self._incarnation, self._numbers, seed_of(self._broker, key.kind)
            )
        full = history.add(ids, now_ms)
        self._full += full
        if full:
            self._due.pop(key, None)  # whatever is in memory now is younger than that
        if history.dirty and key not in self._due:
            self._due[key] = now_ms + self._persist_ms


class KernelBackend:
    """For the strategies `runs`, `bloom` and `async`. The forwarding plane is given `tracker`, and fills it."""

    def __init__(
        self,
        broker: int,
        strategy: Strategy,
        incarnation: int,
        *,
        persist_ms: int = 1000,
        forwards: bool = False,
        numbering: int = 0,
        keys: Sequence[str] = (),
    ) -> None:
        self._incarnation = incarnation
        self._hashes: int | None = None
        match strategy:
            case BloomStrategy(settings=bloom):
                self._hashes = bloom.hashes
                shape = {"bits": bloom.bits, "hashes": bloom.hashes, "capacity": bloom.capacity}
                shape["doublings"] = bloom.doublings
                times = {"skew_ms": bloom.skew_ms, "jitter_ms": bloom.jitter_ms}
                retain = bloom.mode is Mode.RETAIN
            case RunStrategy(skew_ms=skew_ms, jitter_ms=jitter_ms, capacity=capacity):
                shape = {"bits": 64, "hashes": 1, "capacity": capacity, "doublings": 0}
                times, retain = {"skew_ms": skew_ms, "jitter_ms": jitter_ms}, False
            case AsyncStrategy(buffer_bytes=buffer_bytes, skew_ms=skew_ms, jitter_ms=jitter_ms):
                shape = {"bits": 64, "hashes": 1, "capacity": buffer_bytes // ID_BYTES, "doublings": 0}
                times, retain = {"skew_ms": skew_ms, "jitter_ms": jitter_ms}, False
            case _:
                raise UsageError("E_TRACKING_STRATEGY", f"the kernel cannot record with the strategy {strategy.name!r}")
        lists = {"exact": isinstance(strategy, AsyncStrategy), "runs": isinstance(strategy, RunStrategy)}
        more = {"persist_ms": persist_ms, "retain": retain, "forwards": forwards, "numbering": numbering, **lists}
        self.tracker = Tracker(broker, **shape, **times, **more)  # type: ignore[arg-type]
        self.tracker.choose_keys(keys)
        self._numbers: dict[str, int] = {}  # of subscribers
        self._names: dict[int, str] = {}
        self._free: list[int] = []
        self._keys: dict[tuple[str, int], dict[int, Key]] = {}  # by kind and number of the peer, then by origin

    @property
    def memory_bytes(self) -> int:
        return self.tracker.memory_bytes

    def number(self, subscriber: str) -> int:
        """The forwarding plane's number for a subscriber."""
        number = self._numbers.get(subscriber)
        if number is None:
            number = self._free.pop() if self._free else len(self._numbers) + 1
            self._numbers[subscriber], self._names[number] = number, subscriber
        return number

    def add(self, kind: HistoryKind, peer: str, ids: Ids, now_ms: int) -> None:
        self.tracker.add(kind.value, self._peer(kind, peer), bytes(as_ids(ids)), now_ms)

    def take(self, now_ms: int, *, full: bool = True) -> list[HistoryEntry]:
        return self._entries(self.tracker.take(now_ms, full=full))

    def end(self, kind: HistoryKind, peer: str, now_ms: int) -> list[HistoryEntry]:
        number = self._peer(kind, peer)
        entries = self._entries(self.tracker.end(kind.value, number, now_ms))
        if kind is HistoryKind.DELIVER:
            del self._numbers[peer], self._names[number]
            self._free.append(number)
            for cause in range(len(_LOSSES)):
                self._keys.pop((kind.value, _loss_number(cause, number)), None)
        self._keys.pop((kind.value, number), None)
        return entries

    def end_all(self, now_ms: int) -> list[HistoryEntry]:
        return self._entries(self.tracker.end_all(now_ms))

    def find(self, key: Key, message: MessageId, now_ms: int) -> Current | None:
        if key.kind is HistoryKind.DELIVER and split_peer(key.peer)[0] not in self._numbers:
            return None
        peer, one = self._peer(key.kind, key.peer), bytes(message)
        found = self.tracker.find(key.kind.value, key.origin, peer, one, message.ms, now_ms)
        if found is None:
            return None
        sequence, hashed, bits, held = found
        fpp = false_positive_probability(bits, self._hashes, hashed) if self._hashes is not None and hashed else 0.0
        return Current(sequence, held, fpp)

    def know_brokers(self, brokers: Iterable[int]) -> None:
        self.tracker.know_brokers(brokers)

    def stragglers(self, message: MessageId, now_ms: int) -> list[str]:
        origins = {message.broker, UNKNOWN_ORIGIN}
        peers = {peer for origin in origins for peer in self.tracker.stragglers(origin, message.ms, now_ms)}
        return [self._names[peer] for peer in sorted(peers)]

    def take_keys(self) -> list[KeyBatch]:
        return [KeyBatch(*one) for one in self.tracker.take_keys()]

    def _peer(self, kind: HistoryKind, peer: str) -> int:
        if kind is HistoryKind.DELIVER:
            name, cause = split_peer(peer)
            number = self.number(name)
            return number if cause is None else _loss_number(_LOSSES.index(cause), number)
        return int(peer) if kind is HistoryKind.FORWARD else 0

    def _entries(self, filters: list[TrackedFilter]) -> list[HistoryEntry]:
        """Data shared by several histories stays one object; ids are packed once for all of them."""
        packed = {id(one.data): one.data for one in filters if one.form == FilterEncoding.IDS.value}
        packed = {number: encode_ids(as_ids(data)) for number, data in packed.items()}
        return [self._entry(one, packed.get(id(one.data), one.data)) for one in filters]

    def _entry(self, one: TrackedFilter, data: bytes) -> HistoryEntry:
        return HistoryEntry(
            key=self._key(one),
            sequence=one.sequence,
            span=one.span,
            singles=one.singles,
            count=one.ids,
            full=one.full,
            encoding=FilterEncoding(one.form),
            data=data,
            opened_ms=one.opened_ms,
            stored_ms=one.stored_ms,
            incarnation=self._incarnation,
        )

    def _key(self, one: TrackedFilter) -> Key:
        keys = self._keys.setdefault((one.kind, one.peer), {})
        if one.origin not in keys:
            kind = HistoryKind(one.kind)
            peers = {HistoryKind.DELIVER: lambda: self._name(one.peer), HistoryKind.FORWARD: lambda: str(one.peer)}
            keys[one.origin] = Key(kind, one.origin, peers.get(kind, str)())
        return keys[one.origin]

    def _name(self, peer: int) -> str:
        """Of a subscriber, or of one with the cause of its losses."""
        if not peer & LOSS_BIT:
            return self._names[peer]
        cause = _LOSSES[peer >> LOSS_SHIFT & 7]
        return loss_peer(self._names[peer & (1 << LOSS_SHIFT) - 1], cause)


def _loss_number(cause: int, number: int) -> int:
    return LOSS_BIT | cause << LOSS_SHIFT | number
