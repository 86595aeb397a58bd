"""The untyped text (values.py) that a conjunction allows: a set of readings for each kind that it names.

A constraint with a number looks at the number that the text reads as, one with a string at the text itself. So untyped
text is a point in several dimensions, one a kind, and a conjunction allows a box of them: for each kind the readings it
allows, and whether text without a reading of that kind is allowed (it is for `NOT x > 5`). Dimensions are taken as
independent, which they are not: `'abc'` has no number. Where the text is one of few, a look at each makes that good.

An IN over several kinds is no box, so it is kept as it is.
"""

from dataclasses import dataclass

from tidings.model.constraint import Constraint
from tidings.model.string_match import TextTest
from tidings.model.value_set import FLOORS, NOTHING, Cuts, contains, intersection, intervals, is_point, key_of, subset
from tidings.model.values import Kind, Untyped, as_kind

POINTS_MAX = 64  # beyond that texts are not looked at one by one


@dataclass(frozen=True, slots=True)
class Reading:
    """One kind: the readings allowed, and whether a text without one is too."""

    kind: Kind
    allowed: Cuts
    none: bool

    def allows(self, text: Untyped) -> bool:
        value = as_kind(text, self.kind)
        return self.none if value is None else contains(self.allowed, key_of(value))


@dataclass(frozen=True, slots=True)
class Readings:
    parts: tuple[Reading, ...] = ()
    tests: tuple[TextTest, ...] = ()
    choices: frozenset[Constraint] = frozenset()  # INs over several kinds

    @property
    def possible(self) -> bool:
        """Reports whether some text may be allowed."""
        if not all(part.allowed or (part.none and part.kind is not Kind.STRING) for part in self.parts):
            return False
        if sum(not part.none for part in self.parts if part.kind is not Kind.STRING) > 1:
            return False  # nothing reads as two of number, boolean and bytes
        texts = self.texts()
        return texts is None or bool(texts)

    def texts(self) -> list[Untyped] | None:
        """All texts that are allowed; None if they are too many to be looked at."""
        for part in self.parts:
            if part.kind is Kind.STRING:
                found = intervals(part.allowed)
                if len(found) > POINTS_MAX or not all(is_point(low, high) for low, high in found):
                    return None
                return [text for low, _ in found if self.allows(text := Untyped(low[1]))]
        return None

    def allows(self, text: Untyped) -> bool:
        return (
            all(part.allows(text) for part in self.parts)
            and all(test.holds(text) for test in self.tests)
            and all(choice.holds(text) for choice in self.choices)
        )


def region(kind: Kind) -> Cuts:
    return (FLOORS[kind], FLOORS[kind + 1])


def part_of(kind: Kind, cuts: Cuts) -> Reading:
    """The part that constraints of one kind allow, of the values (of any kind) that they allow together."""
    other = FLOORS[Kind.NUMBER if kind is Kind.BYTES else Kind.BYTES]
    readable = NOTHING if kind is Kind.BYTES else intersection(cuts, region(kind))
    return Reading(kind, readable, contains(cuts, other))


def reading_includes(f: Readings, g: Readings) -> bool:
    """Reports whether every text that g allows is surely allowed by f."""
    if not g.possible:
        return True
    texts = g.texts()
    if texts is not None:
        return all(f.allows(text) for text in texts)
    if not f.choices <= g.choices or not set(f.tests) <= set(g.tests):
        return False
    given = {part.kind: part for part in g.parts}
    for part in f.parts:
        own = given.get(part.kind) or Reading(
            part.kind, NOTHING if part.kind is Kind.BYTES else region(part.kind), True
        )
        if not subset(own.allowed, part.allowed) or (own.none and not part.none and part.kind is not Kind.STRING):
            return False
    return True


def reading_meets(f: Readings, g: Readings) -> bool:
    """Reports whether some text may be allowed by both."""
    joined = {part.kind: part for part in f.parts}
    for part in g.parts:
        own = joined.get(part.kind, part)
        joined[part.kind] = Reading(part.kind, intersection(own.allowed, part.allowed), own.none and part.none)
    return Readings(tuple(joined.values()), (*f.tests, *g.tests), f.choices | g.choices).possible
