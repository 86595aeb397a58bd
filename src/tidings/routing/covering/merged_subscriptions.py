"""A broker's own subscriptions, merged: fewer filters that match what all of them match.

Clients are served by what they asked for, so other brokers need to know no more than the union. Conjunctions that
differ in one attribute only are merged along it, piece by piece (merge_group.py): each change costs what one piece
costs, however many there are. Without `in_vain_max` mergers are perfect, and no message more is brought here than
without them. With it, ranges with gaps between them are merged, too, as long as at most this share of what the
mergers let through is in vain.

>>> from tidings.model.constraint import Constraint, Op
>>> local = MergedInterests()
>>> for limit in (Constraint("price", Op.LT, 10), Constraint("price", Op.EQ, 10)): local.add(Predicate.of(limit))
>>> fresh, gone = local.changes()
>>> [str(one.conjunctions[0][0].op.name) for one in fresh], gone
(['LE'], [])
>>> local.remove(Predicate.of(Constraint("price", Op.EQ, 10)))
>>> [[one.conjunctions[0][0].op.name for one in some] for some in local.changes()]
[['LT'], ['LE']]
"""

from collections import Counter
from collections.abc import Mapping

from tidings.model.predicate import Conjunction, Predicate
from tidings.model.values import Value
from tidings.routing.covering.merge_group import MergeGroup, MergeKey, MergePiece, along, attributes, is_range

SHAPE_LEARNT = 16  # conjunctions of several attributes, from which it is learnt along which one to merge


class _Shape:
    """Conjunctions on the same attributes, and the one along which they are merged once enough of them are known."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self._names = names
        self.along = names[0] if len(names) == 1 else ""
        self.waiting: Counter[Conjunction] = Counter()

    def maybe_learn(self) -> bool:
        """Choose the attribute that differs most, of several a range."""
        if len(self.waiting) < SHAPE_LEARNT:
            return False
        differ = {name: len({row.normal.sets[name] for row in self.waiting}) for name in self._names}
        a_row = next(iter(self.waiting))
        self.along = max(self._names, key=lambda name: (differ[name], is_range(a_row, name)))
        return True


class MergedInterests:
    def __init__(self, in_vain_max: float = 0.0) -> None:
        self.in_vain_max = in_vain_max
        self.in_vain = 0  # publications that a merger brought and nobody here wanted
        self._wanted: Counter[Predicate] = Counter()
        self._shapes: dict[tuple[str, ...], _Shape] = {}
        self._groups: dict[MergeKey, MergeGroup] = {}
        self._changed: dict[MergePiece, None] = {}
        self._alone: Counter[Predicate] = Counter()  # changes of rows that travel unmerged, since they were taken
        self._by_filter: dict[Predicate, list[MergePiece]] = {}  # that others know

    def add(self, predicate: Predicate) -> None:
        self._wanted[predicate] += 1
        if self._wanted[predicate] > 1:
            return
        if predicate.residual is not None:
            self._alone[predicate] += 1
            return
        for row in _possible(predicate):
            self._add_row(row)

    def remove(self, predicate: Predicate) -> None:
        self._wanted[predicate] -= 1
        if self._wanted[predicate]:
            return
        del self._wanted[predicate]
        if predicate.residual is not None:
            self._alone[predicate] -= 1
            return
        for row in _possible(predicate):
            self._remove_row(row)

    def _add_row(self, row: Conjunction) -> None:
        names = attributes(row)
        if not names:
            self._alone[Predicate([row])] += 1
            return
        shape = self._shapes.get(names)
        if shape is None:
            shape = self._shapes[names] = _Shape(names)
        if shape.along:
            self._group(row, shape.along)
            return
        shape.waiting[row] += 1
        self._alone[Predicate([row])] += 1
        if shape.maybe_learn():
            for one, count in shape.waiting.items():
                self._alone[Predicate([one])] -= count
                for _ in range(count):
                    self._group(one, shape.along)
            shape.waiting.clear()

    def _group(self, row: Conjunction, name: str) -> None:
        key, common, some = along(row, name)
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = MergeGroup(key, common, self.in_vain_max)
        self._changed.update(dict.fromkeys(group.add(some)))

    def _remove_row(self, row: Conjunction) -> None:
        names = attributes(row)
        shape = self._shapes[names] if names else None
        if shape is None or not shape.along:
            self._alone[Predicate([row])] -= 1
            if shape is not None:
                shape.waiting[row] -= 1
                shape.waiting = +shape.waiting
            return
        key, _, some = along(row, shape.along)
        group = self._groups[key]
        self._changed.update(dict.fromkeys(group.remove(some)))
        if group.empty:
            del self._groups[key]

    def changes(self) -> tuple[list[Predicate], list[Predicate]]:
        """Returns what is to be subscribed to since the last call, and what is to be taken back after that."""
        fresh, gone = list((+self._alone).elements()), list((-self._alone).elements())
        self._alone.clear()
        for piece in self._changed:
            filters = piece.filters()
            fresh += [one for one in filters if one not in piece.told]
            gone += [one for one in piece.told if one not in filters]
            for one in piece.told:
                self._by_filter[one].remove(piece)
                if not self._by_filter[one]:
                    del self._by_filter[one]
            for one in filters:
                self._by_filter.setdefault(one, []).append(piece)
            piece.told = filters
        self._changed.clear()
        return sorted(fresh, key=repr), sorted(gone, key=repr)

    def arrived(self, filter: Predicate, attributes: Mapping[str, Value]) -> None:
        """A publication came from a neighbour because of a filter that was told."""
        for piece in self._by_filter.get(filter, ()):
            wanted, stays = piece.account(attributes)
            self.in_vain += not wanted
            if not stays:
                self._changed.update(dict.fromkeys(piece.group.cut(piece)))


def _possible(predicate: Predicate) -> list[Conjunction]:
    return [row for row in predicate.conjunctions if row.normal.satisfiable]
