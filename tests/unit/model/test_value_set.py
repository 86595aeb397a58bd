import math
from itertools import pairwise

import pytest
from hardening.support.strategies_model import boundary_values, exact_constraints, numbers, texts, values
from hypothesis import given, settings
from hypothesis import strategies as st

from tidings.model.constraint import Constraint
from tidings.model.predicate import Conjunction
from tidings.model.value_set import (
    ALL,
    MISSING_KEY,
    Cuts,
    complement,
    contains,
    cuts,
    difference,
    intersection,
    key_after,
    key_of,
    number_after,
    number_before,
    overlap,
    prefix_end,
    subset,
    union,
)
from tidings.model.values import INT_MAX, INT_MIN, Untyped, Value

sets = exact_constraints(st.just("x")).map(cuts)


@pytest.mark.parametrize(
    ("number", "after"),
    [
        (0, 5e-324),
        (1, 1.0000000000000002),
        (2**53, 2**53 + 1),
        (2.0**53, 2**53 + 1),
        (2**53 + 1, 2**53 + 2),
        (INT_MAX - 1, INT_MAX),
        (INT_MAX, 2.0**63),
        (2.0**63, 2.0**63 + 2048),
        (INT_MIN, INT_MIN + 1),
        (math.nextafter(-(2.0**63), -math.inf), INT_MIN),
        (-math.inf, -1.7976931348623157e308),
        (1.7976931348623157e308, math.inf),
        (math.inf, None),
    ],
)
def test_the_next_number(number: float, after: float | None) -> None:
    assert number_after(number) == after
    if after is not None:
        assert number_before(after) == number


@given(numbers, numbers)
def test_no_number_lies_between(number: float, other: float) -> None:
    after = number_after(number)
    assert number_before(number) is None or number_before(number) < number  # type: ignore[operator]
    if after is not None:
        assert after > number
        assert number_before(after) == number
        assert not number < other < after


@given(values, values)
def test_no_value_lies_between(value: Value, other: Value) -> None:
    assert not key_of(value) < key_of(other) < key_after(key_of(value))
    assert key_of(value) < key_after(key_of(value))


@given(texts, texts)
def test_a_prefix_is_an_interval(prefix: str, text: str) -> None:
    assert text.startswith(prefix) == (key_of(prefix) <= key_of(text) < prefix_end(prefix))


@given(exact_constraints())
@settings(max_examples=300)
def test_cuts_are_what_holds(constraint: Constraint) -> None:
    found = cuts(constraint)
    assert all(a < b for a, b in pairwise(found))
    assert len(found) % 2 == 0
    for value in boundary_values(Conjunction([constraint]))[constraint.name]:
        if type(value) is Untyped:
            continue  # readings.py
        assert contains(found, MISSING_KEY if value is None else key_of(value)) == constraint.holds(value)


@given(sets, sets, sets)
def test_algebra_of_sets(a: Cuts, b: Cuts, c: Cuts) -> None:
    both, either = intersection(a, b), union(a, b)
    assert complement(complement(a)) == a
    assert complement(both) == union(complement(a), complement(b))
    assert difference(either, b) == difference(a, b)
    assert intersection(either, c) == union(intersection(a, c), intersection(b, c))
    assert overlap(a, b) == overlap(b, a) == bool(both)
    assert subset(a, b) == (both == a) == (either == b) == (not difference(a, b))
    assert subset(both, a)
    assert subset(a, either)
    assert subset(a, ALL)
