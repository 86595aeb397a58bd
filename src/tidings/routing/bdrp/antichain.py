"""Rows of which none makes another needless, kept as they come and go.

A row whose elements are all in another makes that one needless: whatever the other lets through, it lets through too.
Those that are not needless are the *antichain* that a router advertises; the others stay aside, each with the row that
stands for it, and take its place when it goes. One more subscription costs what it takes to look for the rows that it
contains or that contain it, not a comparison of all with all.

>>> rows = Antichain({b"ab": frozenset("ab"), b"a": frozenset("a"), b"bc": frozenset("bc")}.__getitem__)
>>> for row in (b"ab", b"a", b"bc"):
...     rows.add(row)
>>> sorted(rows)
[b'a', b'bc']
>>> rows.remove(b"a")
>>> sorted(rows)
[b'ab', b'bc']
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator

Elements = frozenset[Hashable]


class Antichain:
    def __init__(self, elements: Callable[[bytes], Elements]) -> None:
        self._read = elements
        self._counts: Counter[bytes] = Counter()  # how often each row was added
        self._elements: dict[bytes, Elements] = {}
        # Of rows that are not needless: those that have an element; the one of its elements that a row is filed under
        # (all are where a row that may contain them looks); and the rows that one stands for.
        self._holders: defaultdict[Hashable, set[bytes]] = defaultdict(set)
        self._filed: defaultdict[Hashable, set[bytes]] = defaultdict(set)
        self._place: dict[bytes, Hashable] = {}
        self._aside: defaultdict[bytes, set[bytes]] = defaultdict(set)
        self._instead: dict[bytes, bytes] = {}  # of a needless row: the one that stands for it
        self._come: set[bytes] = set()  # changes since they were last taken
        self._gone: set[bytes] = set()

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._place)

    def __len__(self) -> int:
        return len(self._place)

    def take_changes(self) -> tuple[set[bytes], set[bytes]]:
        """Those that are not needless now and were at the last call, and the other way round."""
        changes = self._come, self._gone
        self._come, self._gone = set(), set()
        return changes

    def add(self, row: bytes, elements: Elements | None = None) -> None:
        """`elements`: those of the row, if the caller knows them."""
        self._counts[row] += 1
        if self._counts[row] == 1:
            self._elements[row] = self._read(row) if elements is None else elements
            self._settle(row)

    def remove(self, row: bytes) -> None:
        """One time less that it was added."""
        self._counts[row] -= 1
        if self._counts[row] > 0:
            return
        del self._counts[row]
        if row in self._instead:
            self._aside[self._instead.pop(row)].discard(row)
        else:
            self._take_out(row)
            for one in self._aside.pop(row, ()):
                del self._instead[one]
                self._settle(one)
        del self._elements[row]

    def _settle(self, row: bytes) -> None:
        """Put it aside, or in the place of all that it makes needless."""
        if (smaller := self._contained(self._elements[row])) is not None:
            self._put_aside(row, smaller)
            return
        for larger in self._containing(self._elements[row]):
            self._take_out(larger)
            for one in (larger, *self._aside.pop(larger, ())):
                self._put_aside(one, row)
        self._put_in(row)

    def _put_aside(self, row: bytes, instead: bytes) -> None:
        self._instead[row] = instead
        self._aside[instead].add(row)

    def _put_in(self, row: bytes) -> None:
        elements = self._elements[row]
        # Under the element that fewest are filed under, so that what many ask for does not make them all neighbours.
        place = min(elements, key=lambda one: len(self._filed.get(one, ())), default=None)
        self._place[row] = place
        self._filed[place].add(row)
        for element in elements:
            self._holders[element].add(row)
        _note(row, self._come, self._gone)

    def _take_out(self, row: bytes) -> None:
        _discard(self._filed, self._place.pop(row), row)
        for element in self._elements[row]:
            _discard(self._holders, element, row)
        _note(row, self._gone, self._come)

    def _contained(self, elements: Elements) -> bytes | None:
        """A row of which all elements are among these."""
        for place in (None, *elements):  # the empty row is filed under None
            for row in self._filed.get(place, ()):
                if self._elements[row] <= elements:
                    return row
        return None

    def _containing(self, elements: Elements) -> list[bytes]:
        """The rows that have all of these elements."""
        if not elements:
            return list(self._place)
        fewest = min((self._holders.get(one, set()) for one in elements), key=len)
        return [row for row in fewest if self._elements[row] >= elements]


def _discard(groups: dict[Hashable, set[bytes]], name: Hashable, row: bytes) -> None:
    groups[name].discard(row)
    if not groups[name]:
        del groups[name]


def _note(row: bytes, now: set[bytes], before: set[bytes]) -> None:
    """A row is in one set now; if it was in the other, nothing has changed in the end."""
    if row in before:
        before.remove(row)
    else:
        now.add(row)
