"""Merging partly full filters of one history after the fact: fewer, fuller filters, the same answers.

Restarts, subscribers that leave, and *rotate* on a quiet history leave filters with much room. Two neighbours in time
become one if both have the same m and k and together no more than n ids: bits are united, and so are ranges and
stragglers. The error stays within that of a full filter. Matching sets do not grow beyond their former maximum: a range
that covers the gap between the two, but neither stands between them in order of their starts, covers the end of the
first as well.
"""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from tidings.kernel.bloom import BloomFilter
from tidings.tracking.history import Encoding, Entry, Key, Span, newest
from tidings.tracking.log_codec import decode_ids, encode_ids


def compact(entries: Iterable[Entry], capacity: int) -> list[Entry]:
    """Entries of one broker, with copies that were replaced dropped and neighbours merged; by history and time."""
    histories: dict[Key, list[Entry]] = {}
    for entry in newest(entries):
        histories.setdefault(entry.key, []).append(entry)
    return [merged for own in histories.values() for merged in _merge(sorted(own, key=_start), capacity)]


def _start(entry: Entry) -> tuple[int, int, int, int]:
    first = entry.span[0] if entry.span is not None else min(entry.singles, default=0)
    return first, entry.opened_ms, entry.incarnation, entry.sequence


def _merge(entries: list[Entry], capacity: int) -> list[Entry]:
    merged: list[Entry] = []
    for entry in entries:
        if merged and (union := _union(merged[-1], entry, capacity)) is not None:
            merged[-1] = union
        else:
            merged.append(entry)
    return merged


def _union(one: Entry, other: Entry, capacity: int) -> Entry | None:
    count = one.count + other.count
    if count > capacity or one.span is None or other.span is None:
        return None
    united = _united(one, other)
    if united is None:
        return None
    encoding, data = united
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


def _united(one: Entry, other: Entry) -> tuple[Encoding, bytes] | None:
    if one.encoding is other.encoding is Encoding.IDS:
        return Encoding.IDS, encode_ids(np.concatenate([decode_ids(one.data), decode_ids(other.data)]))
    if one.encoding is Encoding.IDS:
        one, other = other, one
    left = BloomFilter.from_bytes(one.data)
    if other.encoding is Encoding.IDS:
        left.add(decode_ids(other.data))
        return Encoding.BLOOM, left.to_bytes()
    right = BloomFilter.from_bytes(other.data)
    if (left.bits, left.hashes) != (right.bits, right.hashes):
        return None
    left.unite(right)
    return Encoding.BLOOM, left.to_bytes()
