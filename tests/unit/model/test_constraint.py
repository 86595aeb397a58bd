import pickle
from typing import Any

import pytest
from hardening.support.strategies_model import constraints, values
from hypothesis import given
from hypothesis import strategies as st

from tidings.errors import UsageError
from tidings.model.constraint import Constraint, Op
from tidings.model.values import Value


@given(constraints, st.one_of(st.none(), values))
def test_negation_is_the_opposite_on_present_attributes(constraint: Constraint, value: Value | None) -> None:
    opposite = constraint.negate()
    if value is None:
        assert constraint.holds(None) == (constraint.op is Op.MISSING)
    else:
        assert opposite.holds(value) != constraint.holds(value)
    assert opposite.negate() == constraint


@given(constraints, constraints, values)
def test_equal_constraints_mean_the_same(a: Constraint, b: Constraint, value: Value) -> None:
    if a == b:
        assert hash(a) == hash(b)
        assert a.holds(value) == b.holds(value)
    assert (a < b) + (b < a) + (a == b) == 1
    assert pickle.loads(pickle.dumps(a)) == a


def test_kinds_never_mix() -> None:
    alike: list[tuple[Op, Any]] = [(Op.EQ, 1), (Op.EQ, True), (Op.EQ, "1"), (Op.EQ, b"1"), (Op.IN, (1,))]
    assert len({Constraint("a", op, operand) for op, operand in alike}) == 5
    assert Constraint("a", Op.IN, (True, 1, 1.0)).value == (True, 1)
    assert not Constraint("a", Op.NE, 1).holds("1")
    assert Constraint("a", Op.NE, 2**53 + 1).holds(2.0**53)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("", Op.EXISTS), "E_NAME_LENGTH"),
        (("n" * 256, Op.EXISTS), "E_NAME_LENGTH"),
        (("a", Op.EXISTS, 1), "E_CONSTRAINT_OPERAND"),
        (("a", Op.IN, 1), "E_CONSTRAINT_OPERAND"),
        (("a", Op.LIKE, 1), "E_CONSTRAINT_OPERAND"),
        (("a", Op.EQ), "E_VALUE_TYPE"),
        (("a", Op.EQ, float("nan")), "E_VALUE_NAN"),
        (("a", Op.IN, (2**64,)), "E_VALUE_RANGE"),
        (("a", Op.MISSING, None, True), "E_CONSTRAINT_NEGATED"),
    ],
)
def test_refused(arguments: tuple[Any, ...], code: str) -> None:
    with pytest.raises(UsageError) as caught:
        Constraint(*arguments)
    assert caught.value.code == code
