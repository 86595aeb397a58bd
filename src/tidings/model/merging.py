"""Perfect merging: fewer conjunctions that match exactly the same messages.

Two conjunctions that allow the same in all attributes but one are one box cut in two: their union is a box again, and
if a conjunction can say it (`x < 5`, `x BETWEEN 5 AND 9` and `x = 12` cannot, the first two can) it replaces them.
Conjunctions that cannot match, and those that another covers, go.

>>> cheap, middle = Constraint("price", Op.LT, 10), Constraint("price", Op.EQ, 10)
>>> merge(Predicate([[cheap], [middle], [middle, Constraint("stock", Op.EXISTS)]])).conjunctions
((Constraint(name='price', op=<Op.LE: 4>, value=10, negated=False),),)
"""

from collections.abc import Iterable

from tidings.model.attribute_set import AttributeSet
from tidings.model.constraint import Constraint, Op
from tidings.model.covering import conjunction_covers
from tidings.model.predicate import Conjunction, Predicate
from tidings.model.value_set import (
    ALL,
    FLOORS,
    MISSING,
    MISSING_KEY,
    PRESENT,
    Cuts,
    Key,
    complement,
    intersection,
    intervals,
    is_point,
    number_before,
    prefix_end,
    union,
    union_of,
)
from tidings.model.values import Kind, Value


def merge(predicate: Predicate) -> Predicate:
    """An equivalent predicate with as many or fewer conjunctions."""
    rows = _without_covered(predicate.conjunctions)
    while len(merged := _merge_once(rows)) < len(rows):
        rows = _without_covered(merged)
    return Predicate(rows, predicate.residual)


def _without_covered(conjunctions: Iterable[Conjunction]) -> list[Conjunction]:
    kept: list[Conjunction] = []
    for one in sorted(conjunctions, key=len):  # the shortest say the least, and are the likeliest to cover
        if one.normal.satisfiable and not any(conjunction_covers(other, one) for other in kept):
            kept = [other for other in kept if not conjunction_covers(one, other)]
            kept.append(one)
    return kept


def _merge_once(rows: list[Conjunction]) -> list[Conjunction]:
    """Merge along the first attribute along which anything can be merged."""
    for name in sorted({name for one in rows for name in one.normal.sets}):
        groups: dict[object, list[Conjunction]] = {}
        merged: list[Conjunction] = []
        for one in rows:
            own = one.normal.sets.get(name)
            if own is None:
                merged.append(one)
                continue
            rest = frozenset(item for item in one.normal.sets.items() if item[0] != name)
            groups.setdefault((rest, own.tests, own.kind, own.readings), []).append(one)
        for group in groups.values():
            merged += _merge_group(name, group)
        if len(merged) < len(rows):
            return merged
    return rows


def _merge_group(name: str, group: list[Conjunction]) -> list[Conjunction]:
    """Unite conjunctions that differ in this attribute only: single values first, then neighbours."""
    if len(group) < 2 or group[0].normal.sets[name].readings is not None:
        return group
    rest = [one for one in group[0] if one.name != name]
    tests = [test.constraint for test in group[0].normal.sets[name].tests]
    done = join_sets(name, [one.normal.sets[name].cuts for one in group])
    if len(done) == len(group):
        return group
    return [Conjunction([*rest, *tests, *(express(name, one) or ())]) for one in done]


def join_sets(name: str, sets: Iterable[Cuts]) -> list[Cuts]:
    """The union of these values of an attribute, as few sets that a conjunction can say each."""
    own = list(sets)
    finite = [one for one in own if _finite(one)]
    waiting = sorted(one for one in own if not _finite(one))
    if finite:
        waiting = sorted([*waiting, union_of(finite)])
    done: list[Cuts] = []
    for one in waiting:
        joined = union(done[-1], one) if done else None
        if joined is not None and express(name, joined) is not None:
            done[-1] = joined
        else:
            done.append(one)
    return done


def _finite(one: Cuts) -> bool:
    return all(is_point(low, high) for low, high in intervals(one))


def express(name: str, wanted: Cuts) -> list[Constraint] | None:
    """Constraints on one attribute that allow exactly these values; None if no conjunction says that."""
    if wanted == ALL:
        return []
    if wanted == MISSING:
        return [Constraint(name, Op.MISSING)]
    if wanted == PRESENT:
        return [Constraint(name, Op.EXISTS)]
    if not wanted or wanted[0] == MISSING_KEY:
        return None
    if _finite(wanted):
        values = tuple(low[1] for low, _ in intervals(wanted))
        return [Constraint(name, Op.IN, values) if len(values) > 1 else Constraint(name, Op.EQ, values[0])]
    kinds = [kind for kind in Kind if intersection(wanted, (FLOORS[kind], FLOORS[kind + 1]))]
    found = _within_kind(name, wanted, kinds[0]) if len(kinds) == 1 else _across_kinds(name, wanted)
    assert found is None or AttributeSet.of(found).cuts == wanted
    return found


def _within_kind(name: str, wanted: Cuts, kind: Kind) -> list[Constraint] | None:
    """Bounds, and holes between them."""
    floor, ceiling = FLOORS[kind], FLOORS[kind + 1]
    low, high = wanted[0], wanted[-1]
    holes = _holes(name, wanted[1:-1])
    if holes is None:
        return None
    if kind is Kind.STRING and high == prefix_end(low[1]):
        return [Constraint(name, Op.PREFIX, low[1]), *holes]
    if (low, high) == (floor, ceiling):
        return [Constraint(name, Op.GE, floor[1]), *holes]
    lower = [_from(name, low)] if low != floor else []
    upper = [_below(name, high)] if high != ceiling else []
    return [*lower, *upper, *holes]


def _across_kinds(name: str, wanted: Cuts) -> list[Constraint] | None:
    """Several kinds: negated constraints take away what is not wanted of each."""
    found: list[Constraint] = []
    for kind in Kind:
        floor, ceiling = FLOORS[kind], FLOORS[kind + 1]
        gaps = intersection(complement(wanted), (floor, ceiling))
        if gaps == (floor, ceiling):
            found.append(Constraint(name, Op.GE, floor[1], negated=True))
            continue
        if gaps and gaps[0] == floor:
            found.append(_below(name, gaps[1]).negate())
            gaps = gaps[2:]
        if gaps and gaps[-1] == ceiling:
            found.append(_from(name, gaps[-2]).negate())
            gaps = gaps[:-2]
        holes = _holes(name, gaps)
        if holes is None:
            return None
        found += holes
    return found


def _holes(name: str, gaps: Cuts) -> list[Constraint] | None:
    """Negated constraints for single values and prefixes that are left out."""
    single: list[Value] = []
    found: list[Constraint] = []
    for low, high in intervals(gaps):
        if is_point(low, high):
            single.append(low[1])
        elif low[0] == Kind.STRING and high == prefix_end(low[1]):
            found.append(Constraint(name, Op.PREFIX, low[1], negated=True))
        else:
            return None
    if single:
        found.append(Constraint(name, Op.IN, tuple(single), negated=True))
    return found


def _from(name: str, key: Key) -> Constraint:
    """At least this; said as "more than the value before" where that is shorter."""
    before = _value_before(key)
    return Constraint(name, Op.GE, key[1]) if before is None else Constraint(name, Op.GT, before)


def _below(name: str, key: Key) -> Constraint:
    before = _value_before(key)
    return Constraint(name, Op.LT, key[1]) if before is None else Constraint(name, Op.LE, before)


def _value_before(key: Key) -> Value | None:
    """The value before, if it is the nicer one to write."""
    kind, value = key
    if kind == Kind.NUMBER:
        before = number_before(value)
        return before if before is not None and len(repr(before)) < len(repr(value)) else None
    if kind == Kind.BOOL or value[-1:] not in ("\0", b"\0"):
        return None
    shorter: Value = value[:-1]
    return shorter
