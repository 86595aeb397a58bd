from typing import Any

import pytest
from hardening.support.strategies_model import attributes_near, exact_constraints, predicates
from hypothesis import given, settings
from hypothesis import strategies as st

from tidings.model.attribute_set import AttributeSet
from tidings.model.constraint import Constraint, Op
from tidings.model.merging import express, merge
from tidings.model.predicate import Predicate
from tidings.model.value_set import Cuts, cuts, union

one_name = exact_constraints(st.just("x"))


@given(predicates, st.data())
def test_merging_changes_nothing(predicate: Predicate, data: st.DataObject) -> None:
    merged = merge(predicate)
    near = data.draw(attributes_near(*predicate.conjunctions, *merged.conjunctions))
    assert merged.matches(near) == predicate.matches(near)
    assert len(merged.conjunctions) <= len(predicate.conjunctions)
    assert merged.residual == predicate.residual


@given(st.lists(st.tuples(one_name, st.sampled_from([0, 1])), max_size=5), st.data())
@settings(max_examples=200)
def test_merging_along_one_attribute(rows: list[tuple[Constraint, int]], data: st.DataObject) -> None:
    predicate = Predicate([[one, Constraint("y", Op.EQ, y)] for one, y in rows])
    merged = merge(predicate)
    near = data.draw(attributes_near(*predicate.conjunctions, *merged.conjunctions))
    assert merged.matches(near) == predicate.matches(near)


@given(one_name, one_name, one_name)
@settings(max_examples=300)
def test_express_says_exactly_what_is_wanted(a: Constraint, b: Constraint, c: Constraint) -> None:
    wanted: Cuts = union(union(cuts(a), cuts(b)), cuts(c))
    found = express("x", wanted)
    assert found is None or AttributeSet.of(found).cuts == wanted
    if cuts(a) not in ((), cuts(Constraint("x", Op.MISSING))):
        assert express("x", cuts(a)) is not None


def x(op: Op, operand: Any = None, negated: bool = False) -> Constraint:
    return Constraint("x", op, operand, negated)


Y = Constraint("y", Op.EQ, 1)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([[x(Op.LT, 5)], [x(Op.GE, 5), x(Op.LE, 9)]], [[x(Op.LE, 9)]]),
        ([[x(Op.LT, 5)], [x(Op.GT, 5)]], [[x(Op.GE, float("-inf")), x(Op.IN, (5,), True)]]),
        ([[x(Op.EQ, 1), Y], [x(Op.EQ, "a"), Y], [x(Op.IN, (2, 3)), Y]], [[x(Op.IN, (1, 2, 3)), Y], [x(Op.EQ, "a"), Y]]),
        ([[x(Op.LT, 5), Y], [x(Op.GE, 5)]], [[x(Op.LT, 5), Y], [x(Op.GE, 5)]]),
        ([[x(Op.EXISTS)], [x(Op.MISSING)]], [[]]),
        ([[x(Op.EXISTS), Y], [x(Op.MISSING), Y]], [[Y]]),
        ([[x(Op.GT, 5)], [x(Op.GT, 5), Y]], [[x(Op.GT, 5)]]),
        ([[x(Op.GT, 5), x(Op.LT, 5)], [Y]], [[Y]]),
        ([[x(Op.GT, 5)], [x(Op.GT, 5, True)]], [[x(Op.EXISTS)]]),
        ([[x(Op.PREFIX, "a"), x(Op.SUFFIX, "z")], [x(Op.PREFIX, "b"), x(Op.SUFFIX, "z")]], 1),
        ([[x(Op.LT, 1)], [x(Op.GT, 2)]], 2),
        ([[x(Op.LT, 5), Y], [x(Op.GE, 5), Y], [x(Op.GE, 0), Constraint("y", Op.EQ, 2)]], 2),
    ],
)
def test_examples(before: list[list[Constraint]], after: list[list[Constraint]] | int) -> None:
    merged = merge(Predicate(before))
    if isinstance(after, int):
        assert len(merged.conjunctions) == after
    else:
        assert merged == Predicate(after)
