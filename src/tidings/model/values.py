"""Attribute values: bool, 64-bit int, float, str, bytes; one equality and one order over all of them.

Four kinds: booleans, numbers, strings, bytes. Values of different kinds are never equal and never ordered by a
selector; numbers compare by their exact mathematical value, so 1 = 1.0 while 2**53 + 1 differs from 2.0**53.
Strings compare by code point, which is also the order of their UTF-8 bytes. NaN is not a value: messages refuse
it, arithmetic that would produce it yields NULL.

>>> equal(1, 1.0), equal(True, 1), compare("a", "b"), compare("a", 1)
(True, False, -1, None)
"""

import math
from enum import IntEnum
from typing import TypeAlias

from tidings.errors import UsageError

Value: TypeAlias = bool | int | float | str | bytes

INT_MIN, INT_MAX = -(2**63), 2**63 - 1


class Kind(IntEnum):
    """What can be compared with what. The order of kinds completes the total order used for sorting."""

    BOOL = 0
    NUMBER = 1
    STRING = 2
    BYTES = 3


_KINDS: dict[type, Kind] = {
    bool: Kind.BOOL,
    int: Kind.NUMBER,
    float: Kind.NUMBER,
    str: Kind.STRING,
    bytes: Kind.BYTES,
}


def kind(value: Value) -> Kind:
    return _KINDS[type(value)]


def compare(a: Value, b: Value) -> int | None:
    """-1, 0 or 1; None when the kinds differ."""
    if kind(a) != kind(b):
        return None
    return (a > b) - (a < b)  # type: ignore[operator]


def equal(a: Value, b: Value) -> bool:
    return kind(a) == kind(b) and a == b


def sort_key(value: Value) -> tuple[Kind, Value]:
    """A total order over all values, for canonical forms."""
    return (kind(value), value)


def canonical(value: Value) -> Value:
    """One spelling per value: a float that a 64-bit int expresses exactly becomes that int."""
    if type(value) is float and value.is_integer() and INT_MIN <= value <= INT_MAX:
        return int(value)
    return value


def check(value: object) -> Value:
    """The value, as one of the five plain types, if it may stand in a message; otherwise an error that says why not."""
    match value:
        case bool():
            return value
        case bytes():
            return bytes(value)
        case int():
            if not INT_MIN <= value <= INT_MAX:
                raise UsageError("E_VALUE_RANGE", "an integer does not fit in 64 bits")
            return int(value)
        case float():
            if math.isnan(value):
                raise UsageError("E_VALUE_NAN", "NaN is not a value")
            return float(value)
        case str():
            try:
                value.encode()
            except UnicodeEncodeError as error:
                raise UsageError("E_VALUE_TEXT", "text holds a lone surrogate", position=error.start) from None
            return str.__str__(value)
        case _:
            raise UsageError("E_VALUE_TYPE", f"{type(value).__name__} is not bool, int, float, str or bytes")
