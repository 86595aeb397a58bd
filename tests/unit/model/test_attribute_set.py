import pytest
from hardening.support.strategies_model import boundary_values, exact_constraints, text_constraints, texts
from hypothesis import given, settings
from hypothesis import strategies as st

from tidings.model.attribute_set import AttributeSet, common_prefix, includes, meets
from tidings.model.constraint import Constraint, Op
from tidings.model.predicate import Conjunction
from tidings.model.value_set import Key, contains, key_of, prefix_end
from tidings.model.values import Untyped

constraints_on_x = st.one_of(text_constraints(st.just("x")), exact_constraints(st.just("x")))
# No selector has IN without values; what includes nothing is then not always seen, which costs a cover, not a message.
on_x = st.lists(constraints_on_x.filter(lambda one: one.op is not Op.IN or one.value != ()), min_size=1, max_size=4)


@given(on_x)
@settings(max_examples=300)
def test_a_set_is_its_constraints(constraints: list[Constraint]) -> None:
    found = AttributeSet.of(constraints)
    for value in boundary_values(Conjunction(constraints))["x"]:
        if type(value) is Untyped:
            assert found.text.allows(value) == all(one.holds(value) for one in constraints)
            continue
        inside = contains(found.cuts, (-1,) if value is None else key_of(value))
        passes = not isinstance(value, str) or all(test.holds(value) for test in found.tests)
        assert (inside and passes) == all(one.holds(value) for one in constraints)


@given(on_x, on_x)
def test_a_set_includes_and_meets_itself(a: list[Constraint], b: list[Constraint]) -> None:
    one, both = AttributeSet.of(a), AttributeSet.of([*a, *b])
    assert includes(one, one)
    assert meets(one, one) == one.possible
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
    assert points.cuts == AttributeSet.of([Constraint("x", Op.EQ, 5)]).cuts
    assert not points.tests
    opposite = AttributeSet.of([Constraint("x", Op.SUFFIX, "a"), Constraint("x", Op.SUFFIX, "b")])
    assert opposite.cuts == ()


def test_what_is_too_much_work_is_left_undecided() -> None:
    words = tuple(str(number) for number in range(200))
    tests = [Constraint("x", Op.CONTAINS, word, negated=True) for word in words[1:]]
    many = AttributeSet.of([Constraint("x", Op.IN, words), *tests])
    assert len(many.cuts) == 2 * len(words)
    assert includes(many, many)
    assert meets(many, many)
    assert includes(AttributeSet.of([Constraint("x", Op.IN, words)]), many)
    assert not includes(many, AttributeSet.of([Constraint("x", Op.EQ, "0")]))


def test_thousands_of_holes() -> None:
    holes = AttributeSet.of([Constraint("x", Op.NE, number) for number in range(5000)])
    assert len(holes.cuts) == 2 * 5001
    assert includes(AttributeSet.of([Constraint("x", Op.NE, 7)]), holes)
    assert not meets(AttributeSet.of([Constraint("x", Op.IN, (7, 8))]), holes)
