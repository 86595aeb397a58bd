"""Decides whether one filter covers another, and whether two filters can match the same message.

`covers(f, g)`: every message that matches g matches f. `intersects(f, g)`: some message may match both. Both are
sound: covers says yes, and intersects says no, only when it is so. They are exact between conjunctions of =, <>, <,
<=, >, >=, BETWEEN, IN, prefix, their negations, IS [NOT] NULL, and between topic patterns; careful where suffix,
substring, LIKE or a residual program comes in, and between constraints of different kinds on one attribute, which
untyped text may satisfy together (readings.py).

Attributes are independent of each other, so a conjunction is a box: a set of values for each attribute, all values
where it says nothing. Box g lies in box f if it does so in every attribute; they intersect if they do in every
attribute. Both take the sets from the conjunction, which keeps them.

A disjunction G lies in F if each of its boxes lies in one of F, or in the union of boxes of F that differ from it in
one attribute only (`x < 5 OR x >= 5` covers `x = 7 OR y > 1 AND x > 2`). That is sound, not complete: boxes that
cover another only together, in several attributes at once, are not found; to find them all is coNP-hard.

>>> from tidings.model.constraint import Op
>>> over, within = Constraint("price", Op.GT, 10), Predicate.of(Constraint("price", Op.IN, (20, 30)))
>>> covers(over, within), covers(within, over), intersects(over, Constraint("price", Op.LT, 10))
(True, False, False)
"""

from typing import TypeAlias

from tidings.model.attribute_set import AttributeSet, includes, meets
from tidings.model.constraint import Constraint
from tidings.model.predicate import Conjunction, Predicate
from tidings.model.untyped_text import region
from tidings.model.value_set import ALL, Cuts, subset, union
from tidings.model.values import Kind

Filter: TypeAlias = Constraint | Conjunction | Predicate

_ANYTHING = AttributeSet(ALL)


def covers(f: Filter, g: Filter) -> bool:
    """Reports whether every message that matches g surely matches f."""
    if isinstance(f, Conjunction) and isinstance(g, Conjunction):
        return conjunction_covers(f, g)
    wide, narrow = _predicate(f), _predicate(g)
    if wide.residual is not None and wide.residual != narrow.residual:
        return not any(one.normal.satisfiable for one in narrow.conjunctions)
    return all(disjunction_covers(wide.conjunctions, one) for one in narrow.conjunctions)


def intersects(f: Filter, g: Filter) -> bool:
    """Reports whether some message may match both."""
    if isinstance(f, Conjunction) and isinstance(g, Conjunction):
        return conjunction_intersects(f, g)
    left, right = _predicate(f).conjunctions, _predicate(g).conjunctions
    return any(conjunction_intersects(one, other) for one in left for other in right)


def satisfiable(f: Filter) -> bool:
    """Reports whether some message may match."""
    return any(one.normal.satisfiable for one in _predicate(f).conjunctions)


def conjunction_covers(f: Conjunction, g: Conjunction) -> bool:
    wide, narrow = f.normal, g.normal
    if not narrow.satisfiable:
        return True
    if not wide.satisfiable:
        return False
    given = narrow.sets
    for name, allowed in wide.sets.items():
        own = given.get(name)
        if own is None or not includes(allowed, own):  # a constraint always excludes something
            return False
    return True


def conjunction_intersects(f: Conjunction, g: Conjunction) -> bool:
    left, right = f.normal, g.normal
    if not (left.satisfiable and right.satisfiable) or left.place + right.place == 3:
        return False
    given = right.sets
    for name, allowed in left.sets.items():
        own = given.get(name)
        if own is not None and not meets(allowed, own):
            return False
    return True


def disjunction_covers(wide: tuple[Conjunction, ...], g: Conjunction) -> bool:
    """Reports whether one of these conjunctions covers g, or several that stick out in the same single attribute do."""
    if not g.normal.satisfiable or any(conjunction_covers(one, g) for one in wide):
        return True
    joined: dict[tuple[str, Kind | None], Cuts] = {}
    for one in wide:
        if len(wide) > 1 and one.normal.satisfiable and (odd := _only_exception(one, g)):
            allowed = one.normal.sets[odd]
            if not allowed.tests and allowed.readings is None:
                key = (odd, allowed.kind)
                joined[key] = union(joined.get(key, ()), allowed.cuts)
    given = g.normal.sets
    return any(subset(_reach(given.get(name, _ANYTHING), kind), cuts) for (name, kind), cuts in joined.items())


def _reach(g: AttributeSet, kind: Kind | None) -> Cuts:
    """The values that g allows, and the readings of allowed untyped text in constraints of this kind."""
    if kind is None or (g.readings is None and g.kind is kind):
        return g.cuts
    if not g.cuts:  # only untyped text: whether it has such a reading at all would be another question
        return ALL
    own = next((part.allowed for part in g.text.parts if part.kind is kind), region(kind))
    return union(g.cuts, own)


def _only_exception(f: Conjunction, g: Conjunction) -> str | None:
    """The one attribute in which f does not cover g; None if there are several."""
    found = None
    for name, allowed in f.normal.sets.items():
        if not includes(allowed, g.normal.sets.get(name, _ANYTHING)):
            if found is not None:
                return None
            found = name
    return found


def _predicate(f: Filter) -> Predicate:
    if isinstance(f, Predicate):
        return f
    return Predicate([f if isinstance(f, Conjunction) else (f,)])
