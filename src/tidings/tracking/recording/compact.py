"""Merging partly full filters of one history after the fact: fewer, fuller filters, the same answers.

Restarts, subscribers that leave, and *rotate* on a quiet history leave filters with much room. Two neighbours in time
become one if both have the same m and k and together no more than n ids: bits are united, and so are ranges and
stragglers. The error stays within that of a full filter. Filters of busy histories grow, and n with m: how many ids
one takes is seen from the full ones. Matching sets do not grow beyond their former maximum: a range
that covers the gap between the two, but neither stands between them in order of their starts, covers the end of the
first as well.

Run lists are exact, so that they are united without regard to their number of ids, up to a size that is quickly read.
Histories that took the same ids still share the result.
"""

from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction

import numpy as np

from tidings.kernel.bloom import BloomFilter
from tidings.kernel.exact_lists import RunIds
from tidings.tracking.moments import Span
from tidings.tracking.recording.history import BloomSettings, FilterEncoding, HistoryEntry, Key, newest
from tidings.tracking.recording.log_codec import decode_ids, encode_ids

USUAL = BloomSettings()
RUNS_BYTES_MAX = 16 << 10  # of a run list, and how many ids it may stand for
RUNS_IDS_MAX = 1 << 24


def compact(entries: Iterable[HistoryEntry], capacity: int = 0) -> list[HistoryEntry]:
    """Entries of one broker with copies that were replaced dropped and neighbours merged; by history and time.

    `capacity`: ids that a filter takes, whatever its m; 0: as many as the full ones among these entries
    show for its m and k, and if none is full, as many as is usual for that k.
    """
    histories: dict[Key, list[HistoryEntry]] = {}
    for entry in newest(entries):
        histories.setdefault(entry.key, []).append(entry)
    room = _Room((entry for own in histories.values() for entry in own), capacity)
    runs = _Runs()
    united = [runs.unite(sorted(own, key=_start)) for own in histories.values()]
    return [merged for own in united for merged in _merge(own, room)]


class _Runs:
    """Unites run lists; the same lists for several histories once."""

    def __init__(self) -> None:
        self._done: dict[tuple[bytes, ...], bytes] = {}

    def unite(self, entries: list[HistoryEntry]) -> list[HistoryEntry]:
        """Of one history, in the order of their starts. Those of one process only,
        because when it stored last must be known."""
        made: list[HistoryEntry] = []
        groups: dict[int, list[HistoryEntry]] = {}  # by incarnation
        for entry in entries:
            if entry.encoding is not FilterEncoding.RUNS or entry.span is None:
                made.append(entry)
                continue
            group = groups.setdefault(entry.incarnation, [])
            size = sum(len(one.data) for one in group) + len(entry.data)
            if size > RUNS_BYTES_MAX or sum(one.count for one in group) + entry.count > RUNS_IDS_MAX:
                made += self._united(group)
                group.clear()
            group.append(entry)
        return sorted([*made, *(one for group in groups.values() for one in self._united(group))], key=_start)

    def _united(self, group: list[HistoryEntry]) -> list[HistoryEntry]:
        if len(group) < 2:
            return group
        parts = tuple(entry.data for entry in group)
        if parts not in self._done:
            self._done[parts] = RunIds.united(parts).to_bytes()
        data = self._done[parts]
        spans = [entry.span for entry in group if entry.span is not None]
        span = (min(first for first, _ in spans), max(last for _, last in spans))
        singles = {moment for entry in group for moment in entry.singles if not span[0] <= moment <= span[1]}
        count = sum(entry.count for entry in group)
        return [
            replace(
                group[0],
                span=span,
                singles=tuple(sorted(singles)),
                count=count,
                full=len(data) > RUNS_BYTES_MAX // 2 or count > RUNS_IDS_MAX // 2,
                data=data,
                opened_ms=min(entry.opened_ms for entry in group),
                stored_ms=max(entry.stored_ms for entry in group),
            )
        ]


class _Room:
    """The number of ids that one entry may hold."""

    def __init__(self, entries: Iterable[HistoryEntry], capacity: int) -> None:
        self._capacity = capacity
        self._densities: dict[int, Fraction] = {}  # k -> ids a bit of the full filter that has fewest
        lists, filters = [0], list[int]()
        for entry in entries if not capacity else ():
            if not entry.full:
                continue
            if entry.encoding is FilterEncoding.IDS:
                lists.append(entry.count)
            if entry.encoding is not FilterEncoding.BLOOM:
                continue
            filters.append(entry.count)
            shape = BloomFilter.from_bytes(entry.data)
            density = Fraction(entry.count, shape.bits)
            self._densities[shape.hashes] = min(density, self._densities.get(shape.hashes, density))
        # Lists never err: their room is a matter of size alone.
        self.of_lists = capacity or max(lists) or min(filters, default=USUAL.capacity)

    def of(self, bits: int, hashes: int) -> int:
        usual = Fraction(USUAL.capacity, USUAL.bits) if hashes == USUAL.hashes else Fraction(0)
        return self._capacity or int(self._densities.get(hashes, usual) * bits)


def _start(entry: HistoryEntry) -> tuple[int, int, int, int]:
    first = entry.span[0] if entry.span is not None else min(entry.singles, default=0)
    return first, entry.opened_ms, entry.incarnation, entry.sequence


def _merge(entries: list[HistoryEntry], room: _Room) -> list[HistoryEntry]:
    merged: list[HistoryEntry] = []
    for entry in entries:
        if merged and (union := _union(merged[-1], entry, room)) is not None:
            merged[-1] = union
        else:
            merged.append(entry)
    return merged


def _union(one: HistoryEntry, other: HistoryEntry, room: _Room) -> HistoryEntry | None:
    count = one.count + other.count
    if one.span is None or other.span is None:
        return None
    united = _united(one, other, room)
    if united is None:
        return None
    encoding, data, capacity = united
    span: Span = (min(one.span[0], other.span[0]), max(one.span[1], other.span[1]))
    singles = {moment for moment in one.singles + other.singles if not span[0] <= moment <= span[1]}
    return replace(
        one,
        span=span,
        singles=tuple(sorted(singles)),
        count=count,
        full=count >= capacity,
        encoding=encoding,
        data=data,
        opened_ms=min(one.opened_ms, other.opened_ms),
        stored_ms=max(one.stored_ms, other.stored_ms),
    )


def _united(one: HistoryEntry, other: HistoryEntry, room: _Room) -> tuple[FilterEncoding, bytes, int] | None:
    """Merges two entries; returns the result and its capacity, or None if they do not fit together."""
    count = one.count + other.count
    if not {one.encoding, other.encoding} <= {FilterEncoding.IDS, FilterEncoding.BLOOM}:
        return None
    if one.encoding is other.encoding is FilterEncoding.IDS:
        if count > room.of_lists:
            return None
        ids = np.concatenate([decode_ids(one.data), decode_ids(other.data)])
        return FilterEncoding.IDS, encode_ids(ids), room.of_lists
    if one.encoding is FilterEncoding.IDS:
        one, other = other, one
    left = BloomFilter.from_bytes(one.data)
    capacity = room.of(left.bits, left.hashes)
    if count > capacity:
        return None
    if other.encoding is FilterEncoding.IDS:
        left.add(decode_ids(other.data))
        return FilterEncoding.BLOOM, left.to_bytes(), capacity
    right = BloomFilter.from_bytes(other.data)
    if (left.bits, left.hashes, left.seed) != (right.bits, right.hashes, right.seed):
        return None
    left.unite(right)
    return FilterEncoding.BLOOM, left.to_bytes(), capacity
