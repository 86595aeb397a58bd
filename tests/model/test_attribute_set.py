import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidings.model.attribute_set import AttributeSet, common_prefix, includes, meets
from tidings.model.constraint import Constraint, Op
from tidings.model.predicate import Conjunction
from tidings.model.value_set import Key, contains, key_of, prefix_end
from tidings.testing.strategies_model import boundary_values, exact_constraints, text_constraints, texts

on_x = st.lists(st.one_of(text_constraints(st.just("x")), exact_constraints(st.just("x"))), min_size=1, max_size=4)


@given(on_x)
@settings(max_examples=300)
def test_a_set_is_its_constraints(constraints: list[Constraint]) -> None:
    found = AttributeSet.of(constraints)
    for value in boundary_values(Conjunction(constraints))["x"]:
        inside = contains(found.cuts, (-1,) if value is None else key_of(value))
        passes = not isinstance(value, str) or all(test.holds(value) for test in found.tests)
        assert (inside and passes) == all(one.holds(value) for one in constraints)


@given(on_x, on_x)
def test_a_set_includes_and_meets_itself(a: list[Constraint], b: list[Constraint]) -> None:
    one, both = AttributeSet.of(a), AttributeSet.of([*a, *b])
    assert includes(one, one)
    assert meets(one, one) == bool(one.cuts)
    assert includes(one, both)


@given(texts, texts, texts)
def test_common_prefix(low: str, high: str, text: str) -> None:
    if low < high:
        prefix = common_prefix(key_of(low), key_of(high))
        assert low.startswith(prefix)
        assert text.startswith(prefix) or not low <= text < high


@pytest.mark.parametrize(
    ("low", "high", "prefix"),
    [
        ((2, "ab"), prefix_end("ab"), "ab"),
        ((2, "ab"), (2, "ac"), "ab"),
        ((2, "ab"), (2, "ad"), "a"),
        ((2, "ab"), (2, "abc"), "ab"),
        ((2, "ab"), (3, b""), ""),
    ],
)
def test_common_prefix_is_the_longest(low: Key, high: Key, prefix: str) -> None:
    assert common_prefix(low, high) == prefix


def test_what_tests_decide_is_decided() -> None:
    points = AttributeSet.of([Constraint("x", Op.IN, ("ab", "b", 5)), Constraint("x", Op.SUFFIX, "b", negated=True)])
    assert points == AttributeSet.of([Constraint("x", Op.EQ, 5)])
    opposite = AttributeSet.of([Constraint("x", Op.SUFFIX, "a"), Constraint("x", Op.SUFFIX, "b")])
    assert opposite.cuts == ()
