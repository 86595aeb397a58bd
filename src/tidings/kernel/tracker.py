"""Histories that the forwarding plane fills: a thin face over native/include/tidings/tracking/tracker.hpp."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from tidings import _kernel

FORMS = ("bloom", "ids", "runs", "lines")  # ids: as they are, 16 bytes each
KINDS = ("publish", "route", "forward", "deliver")  # by the number the kernel has for them


class TrackedFilter(NamedTuple):
    """(B, R, S) on its way to the disk."""

    kind: str
    origin: int
    peer: int
    sequence: int
    span: tuple[int, int] | None
    singles: tuple[int, ...]
    ids: int  # how many
    full: bool
    form: str  # of the data: see FORMS
    data: bytes
    opened_ms: int
    stored_ms: int


class Tracker:
    """Peers are numbers here: of a neighbour its router number, of a subscriber one that the caller gives, from 1."""

    def __init__(
        self,
        broker: int,
        *,
        exact: bool,
        runs: bool,
        bits: int,
        hashes: int,
        capacity: int,
        doublings: int,
        skew_ms: int,
        jitter_ms: int,
        persist_ms: int,
        retain: bool,
        forwards: bool,
        numbering: int = 0,
    ) -> None:
        shape = (exact, runs, bits, hashes, capacity, doublings)
        times = (skew_ms, jitter_ms, persist_ms)
        self.kernel = _kernel.Tracker(broker, *shape, *times, retain, forwards, numbering)

    @property
    def memory_bytes(self) -> int:
        return self.kernel.memory_bytes

    def add(self, kind: str, peer: int, ids: bytes, now_ms: int) -> None:
        self.kernel.add(KINDS.index(kind), peer, ids, now_ms)

    def take(self, now_ms: int, *, full: bool = True) -> list[TrackedFilter]:
        """Filters whose persistence interval has passed, and those that are full; `full=False`: these together with
        others, or once there are many."""
        return [_named(row) for row in self.kernel.take(now_ms, full)]

    def end(self, kind: str, peer: int, now_ms: int) -> list[TrackedFilter]:
        """The histories of this peer end; besides theirs, all filters that are full are returned."""
        return [_named(row) for row in self.kernel.end(KINDS.index(kind), peer, now_ms)]

    def end_all(self, now_ms: int) -> list[TrackedFilter]:
        return [_named(row) for row in self.kernel.end_all(now_ms)]

    def find(
        self, kind: str, origin: int, peer: int, id: bytes, moment_ms: int, now_ms: int
    ) -> tuple[int, int, int, bool] | None:
        """Of the filter in memory that matches this time: sequence, how many ids are hashed in how many bits, whether
        it holds this one."""
        return self.kernel.find(KINDS.index(kind), origin, peer, id, moment_ms, now_ms)

    def choose_keys(self, names: Sequence[str]) -> None:
        """Attributes by whose values messages can be found."""
        self.kernel.choose_keys(list(names))

    def take_keys(self) -> list[tuple[str, bytes, bytes]]:
        """Of each of these attributes: hashes of values, 8 bytes each, and ids of the messages, since the last call."""
        return self.kernel.take_keys()

    def know_brokers(self, brokers: Iterable[int]) -> None:
        """The brokers that ids may name; ids that name others are kept under origin 0. Before the first call all
        count."""
        self.kernel.know_brokers(list(brokers))

    def stragglers(self, origin: int, moment_ms: int, now_ms: int) -> list[int]:
        """Subscribers in whose filters in memory this time is that of a straggler."""
        return self.kernel.stragglers(origin, moment_ms, now_ms)


def _named(row: tuple[Any, ...]) -> TrackedFilter:
    kind, origin, peer, sequence, span, singles, ids, full, form, data, opened_ms, stored_ms = row
    return TrackedFilter(
        KINDS[kind], origin, peer, sequence, span, singles, ids, full, FORMS[form], data, opened_ms, stored_ms
    )
