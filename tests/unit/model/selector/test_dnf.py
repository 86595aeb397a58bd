import pytest
from hardening.support.strategies import conditions, constraints, properties
from hypothesis import given
from hypothesis import strategies as st

from tidings.model.constraint import Constraint, Op
from tidings.model.selector.dnf import CONJUNCTIONS_MAX, CONSTRAINTS_MAX, Constraints, Translation, translate
from tidings.model.selector.evaluate import evaluator
from tidings.model.selector.parser import parse
from tidings.model.selector.syntax import Expression, both, either
from tidings.model.values import Value

Properties = dict[str, Value | None]


def holds(translation: Translation, having: Properties) -> bool:
    return any(all(one.holds(having.get(one.name)) for one in every) for every in translation.conjunctions)


def on_a(op: Op, value: Value | tuple[Value, ...] | None = None, negated: bool = False) -> Constraints:
    return (Constraint("a", op, value, negated),)


@pytest.mark.parametrize(
    ("text", "conjunctions"),
    [
        ("TRUE", [()]),
        ("FALSE", []),
        ("1 < 2", [()]),
        ("NOT 1 < 2", []),
        ("1 = '1'", []),
        ("a > 1 / 0", []),
        ("NOT a > 1 / 0", []),
        ("a OR TRUE", [()]),
        ("a > b OR TRUE", [()]),
        ("a > b AND FALSE", []),
        ("a", [on_a(Op.EQ, True)]),
        ("NOT a", [on_a(Op.EQ, True, negated=True)]),
        ("a = 1", [on_a(Op.EQ, 1)]),
        ("NOT a <> 1", [on_a(Op.NE, 1, negated=True)]),
        ("5 < a", [on_a(Op.GT, 5)]),
        ("5 >= a", [on_a(Op.LE, 5)]),
        ("2 * 3 = a", [on_a(Op.EQ, 6)]),
        ("a BETWEEN 1 AND 2", [on_a(Op.GE, 1) + on_a(Op.LE, 2)]),
        ("a NOT BETWEEN 1 AND 2", [on_a(Op.GE, 1, negated=True), on_a(Op.LE, 2, negated=True)]),
        ("a IN ('x', 'y', 'x')", [on_a(Op.IN, ("x", "y"))]),
        ("a IN ('x')", [on_a(Op.EQ, "x")]),
        ("a NOT IN ('x', 'y')", [on_a(Op.IN, ("x", "y"), negated=True)]),
        ("a IS NULL", [on_a(Op.MISSING)]),
        ("a IS NOT NULL", [on_a(Op.EXISTS)]),
        ("a LIKE 'x'", [on_a(Op.EQ, "x")]),
        ("a LIKE 'x%'", [on_a(Op.PREFIX, "x")]),
        ("a LIKE '%x'", [on_a(Op.SUFFIX, "x")]),
        ("a LIKE '%%x%'", [on_a(Op.CONTAINS, "x")]),
        ("a LIKE '%'", [on_a(Op.PREFIX, "")]),
        ("a LIKE 'x_'", [on_a(Op.LIKE, "x_")]),
        ("a LIKE 'x%y'", [on_a(Op.LIKE, "x%y")]),
        ("a LIKE 'x!_' ESCAPE '!'", [on_a(Op.EQ, "x_")]),
        ("a NOT LIKE 'x%'", [on_a(Op.PREFIX, "x", negated=True)]),
        ("(a > 1) = TRUE", [on_a(Op.GT, 1)]),
        ("(a > 1) <> TRUE", [on_a(Op.GT, 1, negated=True)]),
        ("a IS NOT NULL AND a > 1", [on_a(Op.GT, 1)]),
        ("a IS NULL AND a > 1", []),
        ("a IS NULL AND a IS NOT NULL", []),
        ("a = 1 AND a = TRUE", []),
        ("a = 1 AND a > 0", [on_a(Op.EQ, 1)]),
        ("a = 1 AND a > 1", []),
        ("a > 1 AND a > 1", [on_a(Op.GT, 1)]),
        ("a > 1 OR a > 1", [on_a(Op.GT, 1)]),
        ("a = 1 OR a = TRUE", [on_a(Op.EQ, 1), on_a(Op.EQ, True)]),
    ],
)
def test_exact_translations(text: str, conjunctions: list[Constraints]) -> None:
    assert translate(parse(text)) == Translation(tuple(conjunctions), exact=True)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a > b", "ab"),
        ("NOT a > b", "ab"),
        ("a + 1 > -b", "ab"),
        ("NOT a * c = b", "acb"),
        ("a = a", "a"),
        ("2 * a BETWEEN 1 AND 5", "a"),
        ("(a IS NULL) = b", "b"),
        ("(a > 1) = (b > 1)", ""),
    ],
)
def test_what_is_no_constraint_needs_its_attributes(text: str, names: str) -> None:
    needed = tuple(Constraint(name, Op.EXISTS) for name in names)
    assert translate(parse(text)) == Translation((needed,), exact=False)


def test_long_ors_of_values_become_one_in() -> None:
    text = " OR ".join(f"a = {number}" for number in range(100))
    assert translate(parse(text)) == Translation((on_a(Op.IN, tuple(range(100))),), exact=True)


def test_long_ors_keep_what_their_parts_share() -> None:
    text = " OR ".join(f"a = {number} AND b > {number} AND c = 'x'" for number in range(100))
    weaker = (*on_a(Op.IN, tuple(range(100))), Constraint("b", Op.EXISTS), Constraint("c", Op.EQ, "x"))
    found = translate(parse(text))
    assert len(found.conjunctions) == 1
    assert set(found.conjunctions[0]) == set(weaker)
    assert not found.exact


def test_ors_without_anything_in_common_say_nothing() -> None:
    text = " OR ".join(f"a{number} = 1" for number in range(CONJUNCTIONS_MAX + 1))
    assert translate(parse(text)) == Translation(((),), exact=False)


def test_a_product_that_is_too_large_keeps_some_factors() -> None:
    found = translate(parse(" AND ".join(f"(a{number} = 1 OR b{number} = 2)" for number in range(20))))
    assert len(found.conjunctions) == CONJUNCTIONS_MAX
    assert not found.exact


def test_factors_without_room_leave_what_their_parts_share() -> None:
    found = translate(parse("(a = 1 OR a = 2) AND (b = 1 OR b = 2) AND (c > 1 OR c < 0)"), conjunctions_max=2)
    shared = (Constraint("b", Op.IN, (1, 2)), Constraint("c", Op.EXISTS))
    assert found == Translation((on_a(Op.EQ, 1) + shared, on_a(Op.EQ, 2) + shared), exact=False)


def test_size_stays_bounded() -> None:
    wide = " AND ".join(f"x{number} > 1" for number in range(1000))
    either = " AND ".join(f"(a{number} OR b{number})" for number in range(6))
    found = translate(parse(f"{wide} AND {either}"))
    assert sum(map(len, found.conjunctions)) <= CONSTRAINTS_MAX
    nested = "a0"
    for level in range(60):
        nested = f"({nested} OR b{level} AND c{level}) AND (d{level} OR e{level})"
    assert len(translate(parse(nested)).conjunctions) <= CONJUNCTIONS_MAX


@given(conditions(exact=True), properties())
def test_constraints_say_all_there_is_to_say(tree: Expression, having: Properties) -> None:
    translation = translate(tree, conjunctions_max=10_000)
    assert translation.exact
    assert holds(translation, having) is (evaluator(tree)(having) is True)


@given(conditions(max_leaves=16), properties(), st.integers(1, 8))
def test_the_translation_is_necessary_and_if_exact_sufficient(
    tree: Expression, having: Properties, conjunctions_max: int
) -> None:
    translation = translate(tree, conjunctions_max)
    assert len(translation.conjunctions) <= conjunctions_max
    if evaluator(tree)(having) is True:
        assert holds(translation, having)
    elif translation.exact:
        assert not holds(translation, having)


@given(
    st.lists(st.lists(constraints(), min_size=2, max_size=3).map(either), min_size=2, max_size=4).map(both),
    properties(),
    st.integers(1, 4),
)
def test_products_cut_short_are_necessary(tree: Expression, having: Properties, conjunctions_max: int) -> None:
    assert holds(translate(tree, conjunctions_max), having) or evaluator(tree)(having) is not True


@given(conditions())
def test_conjunctions_hold_no_constraint_twice(tree: Expression) -> None:
    for conjunction in translate(tree).conjunctions:
        assert len(set(map(repr, conjunction))) == len(conjunction)
