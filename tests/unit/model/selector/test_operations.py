import math
from enum import Enum, IntEnum
from fractions import Fraction
from typing import Any

import pytest
from hardening.support.strategies import floats, ints, values
from hypothesis import given

from tidings.errors import UsageError
from tidings.model.constraint import Op
from tidings.model.selector.operations import (
    add,
    divide,
    divide_whole,
    multiply,
    negate,
    read,
    relate,
    remainder,
    subtract,
)
from tidings.model.values import INT_MAX, INT_MIN, Kind, Value, as_kind, kind, readings

INFINITY = math.inf


class Level(IntEnum):
    HIGH = 3


class Color(str, Enum):  # noqa: UP042  (its str() is not its value)
    RED = "red"


@pytest.mark.parametrize(
    ("value", "seen"),
    [(None, None), (math.nan, None), (True, True), (b"x", b"x"), (Level.HIGH, 3), (Color.RED, "red"), (-0.0, -0.0)],
)
def test_what_a_selector_sees(value: Any, seen: Value | None) -> None:
    found = read({"a": value}, "a")
    assert found == seen
    assert type(found) is type(seen)


@pytest.mark.parametrize("value", [[], {}, object(), 1j, INT_MAX + 1])
def test_what_is_no_value_is_refused(value: Any) -> None:
    with pytest.raises(UsageError):
        read({"a": value}, "a")


@pytest.mark.parametrize(
    ("a", "b", "quotient"),
    [
        (7, 2, 3.5),
        (-7, 2, -3.5),
        (6, -2, -3),
        (2**53 + 1, 1, 2**53 + 1),
        (7, 0, None),
        (0, 0, None),
        (INT_MIN, -1, 2.0**63),
        (7, 0.0, INFINITY),
        (7, -0.0, -INFINITY),
        (-7.0, 0, -INFINITY),
        (0.0, 0, None),
        (INFINITY, INFINITY, None),
        (INFINITY, 0, INFINITY),
        (1e308, 1e-308, INFINITY),
        (7.0, 2, 3.5),
    ],
)
def test_division(a: float, b: float, quotient: float | None) -> None:
    assert divide(a, b) == quotient
    assert type(divide(a, b)) is type(quotient)


@given(ints(), ints())
def test_ints_are_exact_or_the_nearest_float(a: int, b: int) -> None:
    for operation, result in ((add, a + b), (subtract, a - b), (multiply, a * b)):
        found = operation(a, b)
        assert found == (result if INT_MIN <= result <= INT_MAX else float(result))
        assert type(found) is (int if INT_MIN <= result <= INT_MAX else float)


@given(ints(), ints())
def test_division_truncates(a: int, b: int) -> None:
    found = divide_whole(a, b)
    assert found == (None if b == 0 else math.trunc(Fraction(a, b)))


@given(ints(), ints())
def test_a_quotient_is_exact_where_it_is_whole_and_close_elsewhere(a: int, b: int) -> None:
    found = divide(a, b)
    if b == 0:
        assert found is None
    elif Fraction(a, b).denominator == 1 and INT_MIN <= a // b <= INT_MAX:
        assert found == a // b
        assert type(found) is int
    else:
        assert type(found) is float
        assert math.isclose(found, Fraction(a, b), rel_tol=2**-51)


@given(ints(), ints())
def test_a_remainder_is_what_the_whole_quotient_leaves(a: int, b: int) -> None:
    found = remainder(a, b)
    assert found == (None if b == 0 else a - math.trunc(Fraction(a, b)) * b)


@pytest.mark.parametrize(
    ("a", "b", "rest"),
    [
        (7.5, 2, 1.5),
        (-7.5, 2, -1.5),
        (7.5, -2, 1.5),
        (1, 0.0, None),
        (INFINITY, 2, None),
        (2.5, INFINITY, 2.5),
        (5, -INFINITY, 5.0),
    ],
)
def test_remainders_of_floats(a: float, b: float, rest: float | None) -> None:
    assert remainder(a, b) == rest
    assert type(remainder(a, b)) is type(rest)


@given(values(), values())
def test_arithmetic_gives_a_number_or_null(a: Value, b: Value) -> None:
    numbers = as_kind(a, Kind.NUMBER) is not None and as_kind(b, Kind.NUMBER) is not None
    for operation in (add, subtract, multiply, divide, divide_whole, remainder):
        found = operation(a, b)
        assert found is None or (numbers and type(found) in (int, float) and found == found)
        assert operation(a, None) is None
        assert operation(None, b) is None


@given(floats())
def test_signs(number: float) -> None:
    assert str(negate(number)) == str(-number)
    assert str(subtract(number, 0)) == str(number)  # what a plus sign does


@given(values(), values())
def test_relations(a: Value, b: Value) -> None:
    less, equal, greater = (relate(op, a, b) for op in (Op.LT, Op.EQ, Op.GT))
    assert [less, equal, greater].count(True) == (1 if relate(Op.EQ, a, a) and alike(a, b) else 0)
    assert relate(Op.LE, a, b) == (less or equal)
    assert relate(Op.GE, a, b) == (greater or equal)
    assert relate(Op.NE, a, b) == (less or greater)
    assert relate(Op.EQ, None, b) is relate(Op.NE, a, None) is None


def alike(a: Value, b: Value) -> bool:
    return any(kind(x) is kind(y) for x in readings(a) for y in readings(b))
