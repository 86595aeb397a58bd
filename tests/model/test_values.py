import math
from enum import IntEnum, StrEnum

import pytest
from hypothesis import given

from tidings.errors import UsageError
from tidings.model.values import INT_MAX, INT_MIN, Value, canonical, check, compare, equal, kind, sort_key
from tidings.testing.strategies_model import values


class Number(IntEnum):
    ONE = 1


class Text(StrEnum):
    A = "a"


@pytest.mark.parametrize(
    ("a", "b", "order"),
    [
        (1, 1.0, 0),
        (2**53 + 1, 2.0**53, 1),
        (INT_MAX, 2.0**63, -1),
        (INT_MIN, -(2.0**63), 0),
        (INT_MAX, math.inf, -1),
        (0.0, -0.0, 0),
        ("a", "a\0", -1),
        ("\ue000", "\U00010000", -1),  # by code point, not by UTF-16 unit
        (b"a", b"\xff", -1),
        (False, True, -1),
        (True, 1, None),
        ("1", 1, None),
        ("a", b"a", None),
    ],
)
def test_order(a: Value, b: Value, order: int | None) -> None:
    assert compare(a, b) == order
    assert equal(a, b) == (order == 0)


@given(values, values)
def test_strings_order_as_their_utf8_bytes(a: Value, b: Value) -> None:
    if isinstance(a, str) and isinstance(b, str):
        assert compare(a, b) == compare(a.encode(), b.encode())
    assert (sort_key(a) < sort_key(b)) == (kind(a) < kind(b) or compare(a, b) == -1)


@given(values)
def test_canonical_is_equal_and_final(value: Value) -> None:
    assert equal(canonical(value), value)
    assert type(canonical(canonical(value))) is type(canonical(value))
    assert check(value) == value


def test_canonical_makes_ints_of_floats_where_they_fit() -> None:
    assert [type(canonical(one)) for one in (1.0, -0.0, -(2.0**63), 2.0**63, 0.5, math.inf)] == [int] * 3 + [float] * 3


def test_subclasses_become_plain() -> None:
    assert type(check(Number.ONE)) is int
    assert type(check(Text.A)) is str


@pytest.mark.parametrize(
    ("value", "code", "position"),
    [
        (2**63, "E_VALUE_RANGE", None),
        (-(2**63) - 1, "E_VALUE_RANGE", None),
        (10**400, "E_VALUE_RANGE", None),
        (math.nan, "E_VALUE_NAN", None),
        ("a\ud800", "E_VALUE_TEXT", 1),
        (None, "E_VALUE_TYPE", None),
        ([1], "E_VALUE_TYPE", None),
    ],
)
def test_refused(value: object, code: str, position: int | None) -> None:
    with pytest.raises(UsageError) as caught:
        check(value)
    assert (caught.value.code, caught.value.position) == (code, position)
