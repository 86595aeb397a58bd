"""An index of filters for routing: finds those that cover a filter, are covered by it, or intersect it, without a scan.

Candidates come from a tree of boxes (box_tree.hpp), answers from `covers` and `intersects` of the model, so the index
says exactly what a scan would. Filters of one conjunction, nearly all, have a tree of their own with the sharpest
questions. A disjunction can be covered by several boxes together that each cover only a part; its conjunctions are in a
second tree, and there, as for questions about disjunctions, candidates are all boxes that meet. What cannot
match anything is covered by all and is kept aside.

>>> from tidings.model.constraint import Constraint, Op
>>> index: CoverIndex[str] = CoverIndex()
>>> for low in (10, 20, 30): index.add(f"over {low}", Predicate.of(Constraint("price", Op.GT, low)))
>>> over_25 = Predicate.of(Constraint("price", Op.GT, 25))
>>> sorted(index.covering(over_25)), sorted(index.covered_by(over_25)), len(list(index.intersecting(over_25)))
(['over 10', 'over 20'], ['over 30'], 3)
"""

from collections.abc import Hashable, Iterable, Iterator
from typing import Generic, TypeVar, cast

from tidings.errors import UsageError
from tidings.kernel.box_tree import BoxTree
from tidings.model.covering import conjunction_covers, conjunction_intersects, covers, intersects
from tidings.model.predicate import Box, Conjunction, Predicate

K = TypeVar("K", bound=Hashable)


class _Boxes(Generic[K]):
    """A tree of boxes by key."""

    def __init__(self) -> None:
        self._tree = BoxTree()
        self._ids: dict[K, int] = {}
        self._keys: list[K | None] = []
        self._free: list[int] = []

    def __len__(self) -> int:
        return len(self._ids)

    def add(self, key: K, conjunction: Conjunction) -> None:
        if self._free:
            id = self._free.pop()
            self._keys[id] = key
        else:
            id = len(self._keys)
            self._keys.append(key)
        self._ids[key] = id
        self._tree.add(id, conjunction.box)

    def remove(self, key: K) -> None:
        id = self._ids.pop(key)
        self._tree.remove(id)
        self._keys[id] = None
        self._free.append(id)

    def containing(self, box: Box) -> list[K]:
        return self._named(self._tree.containing(box))

    def within(self, box: Box) -> list[K]:
        return self._named(self._tree.within(box))

    def meeting(self, box: Box) -> list[K]:
        return self._named(self._tree.meeting(box))

    def _named(self, ids: list[int]) -> list[K]:
        keys = self._keys
        return [cast("K", keys[id]) for id in ids]


class CoverIndex(Generic[K]):
    """Do not change it while an answer is being iterated over: make a list first."""

    def __init__(self) -> None:
        self._filters: dict[K, Predicate] = {}
        self._single: _Boxes[K] = _Boxes()
        self._parts: _Boxes[tuple[K, int]] = _Boxes()
        self._empty: dict[K, None] = {}

    def __len__(self) -> int:
        return len(self._filters)

    def __contains__(self, key: object) -> bool:
        return key in self._filters

    def __getitem__(self, key: K) -> Predicate:
        return self._filters[key]

    def __iter__(self) -> Iterator[K]:
        return iter(self._filters)

    def add(self, key: K, filter: Predicate) -> None:
        if key in self._filters:
            raise UsageError("E_COVER_KEY", f"{key} is already in the index")
        self._filters[key] = filter
        rows = filter.conjunctions
        if len(rows) == 1 and rows[0].normal.satisfiable:
            self._single.add(key, rows[0])
            return
        useful = [number for number, row in enumerate(rows) if row.normal.satisfiable]
        for number in useful:
            self._parts.add((key, number), rows[number])
        if not useful:
            self._empty[key] = None

    def remove(self, key: K) -> None:
        filter = self._filters.pop(key, None)
        if filter is None:
            raise UsageError("E_COVER_KEY", f"{key} is not in the index")
        rows = filter.conjunctions
        if key in self._empty:
            del self._empty[key]
        elif len(rows) == 1:
            self._single.remove(key)
        else:
            for number, row in enumerate(rows):
                if row.normal.satisfiable:
                    self._parts.remove((key, number))

    def covering(self, filter: Predicate) -> Iterator[K]:
        """Those that surely match whatever this one matches."""
        rows = _useful(filter)
        if not rows:
            yield from (key for key, one in self._filters.items() if covers(one, filter))
            return
        filters, box = self._filters, rows[0].box  # who covers all of it covers its first conjunction
        alone = rows[0] if len(rows) == 1 else None
        for key in self._single.containing(box):
            one = filters[key]
            if alone is not None and one.residual is None:
                if conjunction_covers(one.conjunctions[0], alone):
                    yield key
            elif covers(one, filter):
                yield key
        if len(self._parts):
            yield from (key for key in _owners(self._parts.meeting(box)) if covers(filters[key], filter))

    def covered_by(self, filter: Predicate) -> Iterator[K]:
        """Those whose messages this one surely matches."""
        yield from (key for key in self._empty if covers(filter, self._filters[key]))
        rows = _useful(filter)
        if len(rows) == 1 and len(filter.conjunctions) == 1:
            alone, box, filters = rows[0], rows[0].box, self._filters
            plain = filter.residual is None
            for key in self._single.within(box):
                if conjunction_covers(alone, filters[key].conjunctions[0]) if plain else covers(filter, filters[key]):
                    yield key
            candidates: Iterable[K] = _owners(self._parts.within(box)) if len(self._parts) else ()
        else:
            candidates = self._meeting(rows)
        yield from (key for key in candidates if covers(filter, self._filters[key]))

    def intersecting(self, filter: Predicate) -> Iterator[K]:
        """Those that may match a message that this one matches."""
        rows = _useful(filter)
        alone = rows[0] if len(rows) == 1 else None
        for key in self._meeting(rows):
            own = self._filters[key].conjunctions
            if alone is not None and len(own) == 1:
                if conjunction_intersects(own[0], alone):
                    yield key
            elif intersects(self._filters[key], filter):
                yield key

    def _meeting(self, rows: list[Conjunction]) -> Iterator[K]:
        boxes: list[Box] = [row.box for row in rows]
        if len(boxes) == 1 and not len(self._parts):
            return iter(self._single.meeting(boxes[0]))
        found = {key: None for box in boxes for key in self._single.meeting(box)}
        found.update({key: None for box in boxes for key, _ in self._parts.meeting(box)})
        return iter(found)


def _useful(filter: Predicate) -> list[Conjunction]:
    return [row for row in filter.conjunctions if row.normal.satisfiable]


def _owners(parts: Iterable[tuple[K, int]]) -> Iterator[K]:
    return iter({key: None for key, _ in parts})
