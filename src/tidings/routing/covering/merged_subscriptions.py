"""A broker's own subscriptions, merged perfectly: as few filters as can be that match exactly what all of them match.

Clients are served by what they asked for, so other brokers need to know no more than the union. Adjacent filters
(`price < 10` and `price = 10`) become one (`tidings.model.merging`); what others cover goes. No message more is brought
here than without it. Merging compares all with all: beyond CONJUNCTIONS_MAX filters pass as they are.

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

from tidings.model.merging import merge
from tidings.model.predicate import Predicate

CONJUNCTIONS_MAX = 1000


class MergedInterests:
    def __init__(self) -> None:
        self._wanted: Counter[Predicate] = Counter()
        self._told: set[Predicate] = set()
        self._stale = False

    def add(self, predicate: Predicate) -> None:
        self._wanted[predicate] += 1
        self._stale |= self._wanted[predicate] == 1

    def remove(self, predicate: Predicate) -> None:
        self._wanted[predicate] -= 1
        if not self._wanted[predicate]:
            del self._wanted[predicate]
            self._stale = True

    def changes(self) -> tuple[list[Predicate], list[Predicate]]:
        """Returns what is to be subscribed to since the last call, and what is to be taken back after that."""
        if not self._stale:
            return [], []
        self._stale = False
        union = self._union()
        fresh, gone = union - self._told, self._told - union
        self._told = union
        return sorted(fresh, key=repr), sorted(gone, key=repr)

    def _union(self) -> set[Predicate]:
        plain = [one for one in self._wanted if one.residual is None]
        rows = [row for one in plain for row in one.conjunctions]
        if len(rows) > CONJUNCTIONS_MAX:
            return set(self._wanted)
        others = {one for one in self._wanted if one.residual is not None}
        return others | {Predicate([row]) for row in merge(Predicate(rows)).conjunctions}
