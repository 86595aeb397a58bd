"""Index of time ranges: finds those that hold a moment, in time that depends on the answer and not on their number.

Ranges lie on *levels* by length: level L holds those with less than 2^L ms from first to last. Within a level they are
sorted by their start, so only those that start within 2^L ms before the moment can hold it, and because each is at
least half that long, most of them do. A range that spans weeks lies on a high level and does not slow down others,
which a list sorted by start alone cannot promise. Single moments lie in a dictionary.

>>> index = TimeIndex[str]()
>>> index.add("monday", (0, 10)), index.add("tuesday", (8, 20), singles=[3]), index.add("era", (0, 10**9))
(0, 1, 2)
>>> sorted(index.at(9)), sorted(index.at(3)), sorted(index.between(11, 15))
(['era', 'monday', 'tuesday'], ['era', 'monday', 'tuesday'], ['era', 'tuesday'])
>>> index.remove(2)
>>> index.at(9)
['monday', 'tuesday']
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable
from itertools import islice, takewhile
from typing import Generic, TypeVar

T = TypeVar("T")


class TimeIndex(Generic[T]):
    def __init__(self) -> None:
        # Of each level: (start, number) sorted, and the items and ends under their numbers.
        self._levels: dict[int, list[tuple[int, int]]] = {}
        self._singles: dict[int, list[int]] = {}
        self._items: dict[int, T] = {}
        self._starts: dict[int, int] = {}
        self._ends: dict[int, int] = {}
        self._moments: dict[int, list[int]] = {}  # of those that have any
        self._next = 0

    def __len__(self) -> int:
        return len(self._items)

    def add(self, item: T, span: tuple[int, int] | None, singles: Iterable[int] = ()) -> int:
        """Put an item under its range (both ends belong to it) and under single moments; returns its number."""
        number, self._next = self._next, self._next + 1
        self._items[number] = item
        if span is not None:
            start, end = span
            self._ends[number] = end
            self._starts[number] = start
            insort(self._levels.setdefault((end - start).bit_length(), []), (start, number))
        for moment in singles:
            self._singles.setdefault(moment, []).append(number)
            self._moments.setdefault(number, []).append(moment)
        return number

    def remove(self, number: int) -> None:
        """Take back what `add` has put there under this number."""
        del self._items[number]
        if number in self._ends:
            start, end = self._starts.pop(number), self._ends.pop(number)
            rows = self._levels[(end - start).bit_length()]
            del rows[bisect_left(rows, (start, number))]
        self._drop_moments(number)

    def drop_first(self, count: int) -> int:
        """Remove that many, those that were added first; returns where the last of their ranges ends. This looks at
        everything once, which `remove` does not: the way for thousands, not for one."""
        gone = set(islice(self._items, count))
        for level, rows in list(self._levels.items()):
            self._levels[level] = [row for row in rows if row[1] not in gone]
        last = max((self._ends[number] for number in gone if number in self._ends), default=0)
        for number in gone:
            del self._items[number]
            self._starts.pop(number, None)
            self._ends.pop(number, None)
            self._drop_moments(number)
        return last

    def ended_before(self, moment: int) -> int:
        """Counts those that were added first whose ranges end before this moment."""
        return sum(1 for _ in takewhile(lambda number: self._ends.get(number, moment) < moment, self._items))

    def at(self, moment: int) -> list[T]:
        """Items whose range or single moments hold it, in the order in which they were added."""
        return self.between(moment, moment)

    def between(self, first: int, last: int) -> list[T]:
        """Items with a range that meets [first, last]; single moments count only if it is one itself."""
        found = set(self._singles.get(first, ())) if first == last else set()
        for level, rows in self._levels.items():
            low = bisect_left(rows, (first - (1 << level), -1))
            high = bisect_right(rows, (last, self._next))
            found.update(number for _, number in rows[low:high] if self._ends[number] >= first)
        return [self._items[number] for number in sorted(found)]

    def spans(self, item: T) -> list[tuple[int, int]]:
        """The ranges of an item, in the order in which they were added. This looks at everything."""
        numbers = [number for number, one in self._items.items() if one == item and number in self._ends]
        return [(self._starts[number], self._ends[number]) for number in numbers]

    def _drop_moments(self, number: int) -> None:
        for moment in self._moments.pop(number, ()):
            self._singles[moment].remove(number)
            if not self._singles[moment]:
                del self._singles[moment]
