"""Segments that have been ingested, by writer, as ranges: their size does not grow with the number of segments.

A writer numbers its segments and its clock does not run backwards, so a range is a first and last number with a first
and last time; a number that is used again (a writer whose folder was removed) has a later time, and opens a new range.

>>> names = [SegmentName(1000 + i, "b1", i, 7) for i in range(1000)]
>>> found = SegmentRanges.of(names[:500] + names[600:])
>>> found.as_json()
{'b1': [[0, 499, 1000, 1499], [600, 999, 1600, 1999]]}
>>> names[499] in found, names[500] in found, SegmentName(9_000, "b1", 3, 7) in found
(True, False, False)
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tidings.segments.names import SegmentName

Range = tuple[int, int, int, int]  # first and last number, first and last time


@dataclass(frozen=True, slots=True)
class SegmentRanges:
    ranges: Mapping[str, Sequence[Range]]  # by writer, sorted, without two that could be one

    @classmethod
    def of(cls, names: Iterable[SegmentName]) -> "SegmentRanges":
        return cls({}).with_names(names)

    @classmethod
    def from_json(cls, document: Mapping[str, Sequence[Sequence[int]]]) -> "SegmentRanges":
        return cls({writer: [_range(values) for values in own] for writer, own in document.items()})

    def as_json(self) -> dict[str, list[list[int]]]:
        return {writer: [list(one) for one in own] for writer, own in sorted(self.ranges.items())}

    def __contains__(self, name: SegmentName) -> bool:
        own = self.ranges.get(name.writer, ())
        end = bisect_right(own, name.sequence, key=lambda one: one[0])
        return any(
            first <= name.sequence <= last and early <= name.created_ms <= late
            for first, last, early, late in own[:end]
        )

    def with_names(self, names: Iterable[SegmentName]) -> "SegmentRanges":
        found = {writer: list(own) for writer, own in self.ranges.items()}
        for name in names:
            one = (name.sequence, name.sequence, name.created_ms, name.created_ms)
            found.setdefault(name.writer, []).append(one)
        return SegmentRanges({writer: _joined(own) for writer, own in found.items()})

    def newest_ms(self) -> dict[str, int]:
        """The time of each writer's newest segment."""
        return {writer: max(late for *_, late in own) for writer, own in self.ranges.items()}


def _joined(ranges: Iterable[Range]) -> list[Range]:
    """Ranges in order of time; one that continues another, in number and time, becomes part of it."""
    made: list[Range] = []
    for one in sorted(set(ranges), key=lambda one: (one[2], one[0])):
        before = made[-1] if made else None
        if before is not None and one[0] == before[1] + 1 and one[2] >= before[3]:
            made[-1] = (before[0], one[1], before[2], one[3])
        else:
            made.append(one)
    return sorted(made)


def _range(values: Sequence[int]) -> Range:
    first, last, early, late = values
    return first, last, early, late
