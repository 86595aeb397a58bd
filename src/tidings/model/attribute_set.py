"""What a conjunction allows one attribute to be: cuts, and tests that the strings among them must pass besides.

Without tests everything here is exact. With tests `includes` may say no and `meets` may say yes where a closer look
would not; never the other way round.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tidings.model.constraint import Constraint
from tidings.model.text_test import TextTest, contradictory, implies, prefix_implies, read
from tidings.model.value_set import (
    ALL,
    STRINGS,
    Cuts,
    Key,
    difference,
    intersection,
    intervals,
    is_point,
    overlap,
    prefix_end,
    subset,
)


@dataclass(frozen=True, slots=True)
class AttributeSet:
    cuts: Cuts
    tests: tuple[TextTest, ...] = ()

    @staticmethod
    def of(constraints: Iterable[Constraint]) -> "AttributeSet":
        """The values for which all these constraints (on one attribute) hold."""
        cuts, tests = ALL, []
        for constraint in constraints:
            allowed, test = read(constraint)
            cuts = intersection(cuts, allowed)
            if test is not None:
                tests.append(test)
        return _settled(cuts, tests) if tests else AttributeSet(cuts)


def _settled(cuts: Cuts, tests: Iterable[TextTest]) -> AttributeSet:
    """Decide what can be decided: single strings by running the tests, all others if the tests exclude each other."""
    unique = tuple({test.constraint: test for test in tests}.values())
    strings = intersection(cuts, STRINGS)
    gone: list[Key] = []
    undecided = False
    for low, high in intervals(strings):
        if is_point(low, high):
            stays = all(test.holds(low[1]) for test in unique)
        else:
            stays = not contradictory(unique, common_prefix(low, high))
            undecided |= stays
        if not stays:
            gone += (low, high)
    return AttributeSet(difference(cuts, tuple(gone)), unique if undecided else ())


def common_prefix(low: Key, high: Key) -> str:
    """What all strings of an interval begin with."""
    text: str = low[1]
    if high[0] != low[0]:
        return ""
    end: str = high[1]
    length = next((i for i, (a, b) in enumerate(zip(text, end, strict=False)) if a != b), min(len(text), len(end)))
    longer = text[: length + 1]
    return longer if prefix_end(longer) >= high else text[:length]


def includes(f: AttributeSet, g: AttributeSet) -> bool:
    """Whether every value of g is surely one of f."""
    if f.tests and not all(_ensures(g, test) for test in f.tests):
        return False
    if subset(g.cuts, f.cuts):
        return True
    return bool(g.tests) and all(_excluded(g, low, high) for low, high in intervals(difference(g.cuts, f.cuts)))


def _ensures(g: AttributeSet, test: TextTest) -> bool:
    """Whether every string of g surely passes the test."""
    known = any(implies(own, test) for own in g.tests)
    return known or all(
        test.holds(low[1]) if is_point(low, high) else prefix_implies(common_prefix(low, high), test)
        for low, high in intervals(intersection(g.cuts, STRINGS))
    )


def _excluded(g: AttributeSet, low: Any, high: Any) -> bool:
    """Whether g's tests keep out all of an interval of its cuts."""
    return not _settled((low, high), g.tests).cuts


def meets(f: AttributeSet, g: AttributeSet) -> bool:
    """Whether f and g may have a value in common."""
    if not overlap(f.cuts, g.cuts):
        return False
    if not f.tests and not g.tests:
        return True
    return bool(_settled(intersection(f.cuts, g.cuts), (*f.tests, *g.tests)).cuts)
