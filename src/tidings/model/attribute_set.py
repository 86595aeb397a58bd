"""The set of values that a conjunction allows one attribute: cuts, and tests that its strings must pass as well.

Without tests everything here is exact. With tests `includes` may say no and `meets` may say yes where a closer look
would not; never the other way round. Untyped text may be allowed where neither its string nor its number alone is:
where constraints speak of several kinds, `readings` says what it may be; where of one, that follows from the cuts.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from tidings.model.constraint import Constraint, Op
from tidings.model.string_match import TextTest, contradictory, implies, prefix_excluded, prefix_implies, read
from tidings.model.untyped_text import Reading, Readings, part_of, reading_includes, reading_meets
from tidings.model.value_set import (
    NOTHING,
    PRESENT,
    STRINGS,
    Cuts,
    Key,
    difference,
    intersection,
    intersection_of,
    intervals,
    is_point,
    overlap,
    prefix_end,
    subset,
)
from tidings.model.values import Kind
from tidings.model.values import kind as kind_of

# A hostile conjunction may have thousands of tests on thousands of values. Beyond these bounds nothing more is decided.
TESTS_MAX = 64
WORK_MAX = TESTS_MAX**2

_NO_TEXT = Readings((Reading(Kind.STRING, NOTHING, False),))


@dataclass(frozen=True, slots=True)
class AttributeSet:
    cuts: Cuts
    tests: tuple[TextTest, ...] = ()
    kind: Kind | None = None  # the one kind that the constraints speak of, if it is one
    readings: Readings | None = None  # if there are several

    @property
    def possible(self) -> bool:
        return bool(self.cuts) or (self.readings is not None and self.readings.possible)

    @property
    def text(self) -> Readings:
        """The readings that are allowed to untyped text."""
        if self.readings is not None:
            return self.readings
        if not intersection(self.cuts, PRESENT):
            return _NO_TEXT
        return Readings() if self.kind is None else Readings((part_of(self.kind, self.cuts),), self.tests)

    @staticmethod
    def of(constraints: Iterable[Constraint]) -> "AttributeSet":
        """The values for which all these constraints (on one attribute) hold."""
        own = list(constraints)
        pairs = [read(constraint) for constraint in own]
        cuts = intersection_of([allowed for allowed, _ in pairs])
        tests = [test for _, test in pairs if test is not None]
        kinds = sorted({kind for constraint in own for kind in constraint.kinds})
        readings = _readings(own, kinds, tests) if len(kinds) > 1 else None
        if tests:
            cuts, tests = _settled(cuts, tests)
        return AttributeSet(cuts, tuple(tests), kinds[0] if len(kinds) == 1 else None, readings)


def _readings(constraints: list[Constraint], kinds: list[Kind], tests: list[TextTest]) -> Readings:
    parts: list[Reading] = []
    mixed = [one for one in constraints if len(one.kinds) > 1]
    for kind in kinds:
        alike = [one for one in constraints if one.kinds == {kind}]
        alike += [_only(one, kind) for one in mixed if one.negated and kind in one.kinds]
        if alike:
            parts.append(part_of(kind, intersection_of([read(one)[0] for one in alike])))
    if any(one.op is Op.MISSING for one in constraints):
        return _NO_TEXT
    unique = tuple({test.constraint: test for test in tests}.values())
    return Readings(tuple(parts), unique, frozenset(one for one in mixed if not one.negated))


def _only(mixed: Constraint, kind: Kind) -> Constraint:
    """NOT IN, of its values those of one kind."""
    assert isinstance(mixed.value, tuple)
    return replace(mixed, value=tuple(one for one in mixed.value if kind_of(one) is kind))


def _settled(cuts: Cuts, tests: Iterable[TextTest]) -> tuple[Cuts, list[TextTest]]:
    """Decide what can be decided: single strings by running the tests, all others if the tests exclude each other."""
    unique = list({test.constraint: test for test in tests}.values())
    strings = intervals(intersection(cuts, STRINGS))
    if len(strings) * len(unique) > WORK_MAX or len(unique) ** 2 > WORK_MAX:
        return cuts, unique
    nothing = contradictory(unique)
    gone: list[Key] = []
    undecided = False
    for low, high in strings:
        if nothing:
            stays = False
        elif is_point(low, high):
            stays = all(test.holds(low[1]) for test in unique)
        else:
            stays = not prefix_excluded(common_prefix(low, high), unique)
            undecided |= stays
        if not stays:
            gone += (low, high)
    return difference(cuts, tuple(gone)), unique if undecided else []


def common_prefix(low: Key, high: Key) -> str:
    """The common prefix of all strings of an interval."""
    text: str = low[1]
    if high[0] != low[0]:
        return ""
    end: str = high[1]
    length = next((i for i, (a, b) in enumerate(zip(text, end, strict=False)) if a != b), min(len(text), len(end)))
    longer = text[: length + 1]
    return longer if prefix_end(longer) >= high else text[:length]


def includes(f: AttributeSet, g: AttributeSet) -> bool:
    """Reports whether every value of g is surely one of f."""
    if not _typed_includes(f, g):
        return False
    if f.cuts == PRESENT and f.kind is None and f.readings is None:
        return True  # IS NOT NULL, the widest of all: any text will do
    return _speak_alike(f, g) or reading_includes(f.text, g.text)


def _speak_alike(f: AttributeSet, g: AttributeSet) -> bool:
    """Both of one kind, and the same: then untyped text is where values are."""
    return f.kind is g.kind and f.readings is None and g.readings is None


def _typed_includes(f: AttributeSet, g: AttributeSet) -> bool:
    if f.tests and (len(f.tests) > TESTS_MAX or not all(_ensures(g, test) for test in f.tests)):
        return f.cuts == g.cuts and f.tests == g.tests
    if subset(g.cuts, f.cuts):
        return True
    return bool(g.tests) and all(_excluded(g, low, high) for low, high in intervals(difference(g.cuts, f.cuts)))


def _ensures(g: AttributeSet, test: TextTest) -> bool:
    """Reports whether every string of g surely passes the test."""
    if test in g.tests or any(implies(own, test) for own in g.tests[:TESTS_MAX]):
        return True
    return all(
        test.holds(low[1]) if is_point(low, high) else prefix_implies(common_prefix(low, high), test)
        for low, high in intervals(intersection(g.cuts, STRINGS))
    )


def _excluded(g: AttributeSet, low: Any, high: Any) -> bool:
    """Reports whether g's tests keep out all of an interval of its cuts."""
    return not _settled((low, high), g.tests)[0]


def meets(f: AttributeSet, g: AttributeSet) -> bool:
    """Reports whether f and g may have a value in common."""
    return _typed_meets(f, g) or (not _speak_alike(f, g) and reading_meets(f.text, g.text))


def _typed_meets(f: AttributeSet, g: AttributeSet) -> bool:
    if not overlap(f.cuts, g.cuts):
        return False
    if not f.tests and not g.tests:
        return True
    return bool(_settled(intersection(f.cuts, g.cuts), (*f.tests, *g.tests))[0])
