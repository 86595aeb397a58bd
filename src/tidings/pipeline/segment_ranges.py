"""Segments that have been ingested, by writer, as ranges of their numbers with three bytes for each name.

A number alone would not do: a writer whose folder was emptied begins at 0 again. A segment counts as known if its
number is in a range and the bytes there are those of its name.

>>> names = [SegmentName(1000 + i, "b1", i, 7) for i in range(4)]
>>> found = SegmentRanges.of(names[:2] + names[3:])
>>> found.as_json()
{'b1': [[0, 'VqIl3DuW'], [3, 'Zx6Z']]}
>>> names[1] in found, names[2] in found, SegmentName(9_000, "b1", 1, 7) in found
(True, False, False)
"""

from base64 import b64decode, b64encode
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from tidings.segments.names import SegmentName

BYTES = 3  # of each name


@dataclass(frozen=True, slots=True)
class SegmentRanges:
    """Each range is its first number, and the bytes of its names one after the other."""

    ranges: Mapping[str, Sequence[tuple[int, bytes]]]  # by writer, sorted

    @classmethod
    def of(cls, names: Iterable[SegmentName]) -> "SegmentRanges":
        by_writer: dict[str, list[SegmentName]] = defaultdict(list)
        for name in set(names):
            by_writer[name.writer].append(name)
        return cls({writer: sorted(_ranges(own)) for writer, own in by_writer.items()})

    @classmethod
    def from_json(cls, document: Mapping[str, Sequence[Sequence[Any]]]) -> "SegmentRanges":
        return cls({writer: [(first, b64decode(text)) for first, text in own] for writer, own in document.items()})

    def as_json(self) -> dict[str, list[list[Any]]]:
        return {
            writer: [[first, b64encode(data).decode()] for first, data in own]
            for writer, own in sorted(self.ranges.items())
        }

    def __contains__(self, name: SegmentName) -> bool:
        own = self.ranges.get(name.writer, ())
        wanted = _bytes(name)
        for first, data in own[: bisect_right(own, name.sequence, key=lambda one: one[0])]:
            at = (name.sequence - first) * BYTES
            if data[at : at + BYTES] == wanted:
                return True
        return False


def _ranges(names: Iterable[SegmentName]) -> Iterable[tuple[int, bytes]]:
    """Names with numbers that follow each other, in order of time."""
    first, data, last = 0, bytearray(), -1
    for name in sorted(names):
        if data and name.sequence != last + 1:
            yield first, bytes(data)
            data.clear()
        if not data:
            first = name.sequence
        data += _bytes(name)
        last = name.sequence
    if data:
        yield first, bytes(data)


def _bytes(name: SegmentName) -> bytes:
    return blake2b(str(name).encode(), digest_size=BYTES).digest()
