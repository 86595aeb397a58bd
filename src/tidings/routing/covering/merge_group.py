"""Conjunctions that differ in one attribute only, merged along it: in pieces, so that a change costs no more than one.

What each conjunction allows in that attribute is a set of *intervals* (single values too), counted, since many may
have the same. They are divided by their lower ends into pieces of at most PIECE_MAX, and each piece is said by as few
filters as can be: a list of values, a range. A piece that becomes larger is cut in two.

With a bound on what may come in vain a piece whose union is no single filter is said by its *hull*, one filter from its
lowest to its highest value. How much of what the hull lets through is in vain is measured (`account`); when it is more
than the bound allows, the piece is cut in two, and each half has a hull of its own. A hull of one interval is exact.

>>> from tidings.model.constraint import Op
>>> from tidings.model.predicate_text import abridged
>>> x = [Constraint("x", Op.GE, 1), Constraint("x", Op.LE, 4)], [Constraint("x", Op.GE, 6), Constraint("x", Op.LE, 9)]
>>> parts = [along(Conjunction(one), "x") for one in x]
>>> group = MergeGroup(parts[0].key, in_vain_max=0.1)
>>> [piece] = {piece for one in parts for piece in group.add(one.intervals)}
>>> [abridged(one) for one in piece.filters()]
['x <= 9 AND x >= 1']
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

from tidings.model.attribute_set import AttributeSet
from tidings.model.constraint import Constraint
from tidings.model.destination import QUEUE_ATTRIBUTE, TOPIC_ATTRIBUTE
from tidings.model.merging import express, join_sets
from tidings.model.predicate import Conjunction, Predicate
from tidings.model.selector.program import run
from tidings.model.value_set import FLOORS, MISSING_KEY, Cuts, Key, intervals, is_point, subset, union_of
from tidings.model.values import Value
from tidings.routing.covering.preserved_subscriptions import Bucket

PIECE_MAX = 32
_PLACES = (TOPIC_ATTRIBUTE, QUEUE_ATTRIBUTE)  # destinations are not merged
VAIN_DEPTH = 10.0  # publications in vain that a hull may bring in a row
Interval: TypeAlias = tuple[Key, Key]


class MergeKey(NamedTuple):
    """The attribute, and what all conjunctions of a group have in common."""

    name: str
    rest: frozenset[Any]
    tests: tuple[Any, ...]
    kind: Any


class Mergeable(NamedTuple):
    key: MergeKey
    common: tuple[Constraint, ...]
    intervals: tuple[Interval, ...]


def attributes(row: Conjunction) -> tuple[str, ...]:
    """The attributes along which a conjunction can be merged, apart from its destination."""
    return tuple(name for name, one in sorted(row.normal.sets.items()) if name not in _PLACES and _of_one_kind(one))


def _of_one_kind(one: AttributeSet) -> bool:
    """Others, or what allows no value, too, could mean another thing if it was said in other words."""
    kind = one.kind
    return kind is not None and one.readings is None and subset(one.cuts, (FLOORS[kind], FLOORS[kind + 1]))


def is_range(row: Conjunction, name: str) -> bool:
    return not all(is_point(*each) for each in intervals(row.normal.sets[name].cuts))


def along(row: Conjunction, name: str) -> Mergeable:
    """The way to merge a conjunction along one of its `attributes`."""
    own = row.normal.sets[name]
    rest = frozenset(item for item in row.normal.sets.items() if item[0] != name)
    common = [one for one in row if one.name != name] + [test.constraint for test in own.tests]
    return Mergeable(MergeKey(name, rest, own.tests, own.kind), tuple(common), tuple(intervals(own.cuts)))


class MergePiece:
    def __init__(self, group: "MergeGroup") -> None:
        self.group = group
        self.intervals: Counter[Interval] = Counter()
        self.told: list[Predicate] = []  # for whoever tells others
        self._hull: Predicate | None = None
        self._exact: list[Predicate] = []
        self._bucket: Bucket | None = None

    def filters(self) -> list[Predicate]:
        """The filters that say all of it, as few as may be."""
        name = self.group.key.name
        self._hull, self._bucket, self._exact = None, None, []
        sets = join_sets(name, ((low, high) for low, high in self.intervals))
        said = [found for one in sets if (found := self.group.filter(one)) is not None]
        assert len(said) == len(sets), "an interval can always be said"
        if len(said) > 1 and self.group.in_vain_max:
            whole = union_of(sets)
            self._hull = self.group.filter((whole[0], whole[-1]))
        if self._hull is None:
            return said
        self._exact, self._bucket = said, Bucket(1 - self.group.in_vain_max, VAIN_DEPTH)
        return [self._hull]

    def account(self, attributes: Mapping[str, Value]) -> tuple[bool, bool]:
        """A publication came that its filter lets through: whether it is wanted here, and whether the hull may stay."""
        if self._bucket is None:
            return True, True
        wanted = any(one.matches(attributes, run) for one in self._exact)
        return wanted, self._bucket.take(wanted)


class MergeGroup:
    def __init__(self, key: MergeKey, common: Iterable[Constraint] = (), in_vain_max: float = 0.0) -> None:
        self.key, self.in_vain_max = key, in_vain_max
        self._common = tuple(common)
        self._starts: list[Key] = [MISSING_KEY]  # of pieces: the lowest key that an interval in it may begin with
        self._pieces = [MergePiece(self)]

    @property
    def empty(self) -> bool:
        return not any(piece.intervals for piece in self._pieces)

    def filter(self, allowed: Cuts) -> Predicate | None:
        """The filter that allows these values; None: no single one does."""
        said = express(self.key.name, allowed)
        return None if said is None else Predicate([Conjunction([*self._common, *said])])

    def add(self, some: Iterable[Interval]) -> set[MergePiece]:
        """Once more; returns the pieces that are others now."""
        changed: set[MergePiece] = set()
        for one in some:
            piece = self._piece(one)
            piece.intervals[one] += 1
            if piece.intervals[one] == 1:
                changed.add(piece)
                if len(piece.intervals) > PIECE_MAX:
                    changed |= self.cut(piece)
        return changed

    def remove(self, some: Iterable[Interval]) -> set[MergePiece]:
        changed: set[MergePiece] = set()
        for one in some:
            piece = self._piece(one)
            piece.intervals[one] -= 1
            if not piece.intervals[one]:
                del piece.intervals[one]
                changed.add(piece)
                self._maybe_drop(piece)
        return changed

    def cut(self, piece: MergePiece) -> set[MergePiece]:
        """Cut a piece in two; returns both, or nothing where all its intervals begin alike."""
        lows = sorted({low for low, _ in piece.intervals})
        if len(lows) < 2:
            return set()
        middle, upper = lows[len(lows) // 2], MergePiece(self)
        for one in [one for one in piece.intervals if one[0] >= middle]:
            upper.intervals[one] = piece.intervals.pop(one)
        at = self._pieces.index(piece) + 1
        self._pieces.insert(at, upper)
        self._starts.insert(at, middle)
        return {piece, upper}

    def _piece(self, one: Interval) -> MergePiece:
        return self._pieces[bisect_right(self._starts, one[0]) - 1]

    def _maybe_drop(self, piece: MergePiece) -> None:
        """An empty piece goes, and the one before it takes what would be in it; the first stays."""
        at = self._pieces.index(piece)
        if at and not piece.intervals:
            del self._pieces[at], self._starts[at]
