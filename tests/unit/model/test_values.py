import math
from enum import IntEnum, StrEnum

import pytest
from hardening.support.strategies_model import operands, values
from hypothesis import given

from tidings.errors import UsageError
from tidings.model.values import (
    INT_MAX,
    INT_MIN,
    Untyped,
    Value,
    canonical,
    check,
    compare,
    equal,
    kind,
    reading,
    sort_key,
)


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


@given(operands, operands)
def test_strings_order_as_their_utf8_bytes(a: Value, b: Value) -> None:
    if isinstance(a, str) and isinstance(b, str):
        assert compare(a, b) == compare(a.encode(), b.encode())
    assert (sort_key(a) < sort_key(b)) == (kind(a) < kind(b) or compare(a, b) == -1)


@pytest.mark.parametrize(
    ("a", "b", "order"),
    [
        (Untyped("20"), 20, 0),
        (Untyped("20"), "20", 0),
        (Untyped("020"), "20", -1),
        (Untyped("020"), 20.0, 0),
        (Untyped("9223372036854775808"), 2.0**63, 0),
        (Untyped("True"), True, 0),
        (Untyped("true"), 1, None),
        (Untyped("abc"), 5, None),
        (Untyped("5"), b"5", None),
        (Untyped("10"), Untyped("9"), 1),  # both are numbers
        (Untyped("10"), Untyped("9a"), -1),
        (Untyped("10"), "9", -1),  # a string is a string
    ],
)
def test_untyped_text_is_read_as_what_it_is_compared_with(a: Value, b: Value, order: int | None) -> None:
    assert compare(a, b) == order
    assert compare(b, a) == (None if order is None else -order)
    assert equal(a, b) == (order == 0)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("+7", 7),
        ("-0", 0),
        ("5.", 5.0),
        (".5", 0.5),
        ("1E3", 1000.0),
        ("FALSE", False),
        ("0e999", 0.0),
        ("1" * 64, float("1" * 64)),
    ],
)
def test_readings(text: str, value: Value) -> None:
    read = reading(text)
    assert read is not None
    assert type(read) is type(value)
    assert read == pytest.approx(value)


@pytest.mark.parametrize(
    "text", ["", " 1", "1 ", "1_000", "0x1", "1e", ".", "+", "1e999", "1e-999", "nan", "inf", "٣", "yes", "1" * 65, "ſ"]
)
def test_what_is_no_number_and_no_boolean(text: str) -> None:
    assert reading(text) is None


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
