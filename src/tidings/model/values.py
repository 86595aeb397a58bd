"""Attribute values: bool, 64-bit int, float, str, bytes; one equality and one order over all of them.

Four kinds: booleans, numbers, strings, bytes. Values of different kinds are never equal and never ordered by a
selector; numbers compare by their exact mathematical value, so 1 = 1.0 while 2**53 + 1 differs from 2.0**53.
Strings compare by code point, which is also the order of their UTF-8 bytes. NaN is not a value: messages refuse
it, arithmetic that would produce it yields NULL.

Text that came without a type (a STOMP header) is `Untyped`: a string to every reader, but compared with a number or
a boolean it is the value it reads as (docs/adr/0007).

>>> equal(1, 1.0), equal(True, 1), compare("a", "b"), compare("a", 1)
(True, False, -1, None)
>>> equal(Untyped("20"), "20"), equal(Untyped("20"), 20.0), equal("20", 20), compare(Untyped("x"), 20)
(True, True, False, None)
"""

import math
import re
from enum import IntEnum
from typing import TypeAlias

from tidings.errors import UsageError

Value: TypeAlias = bool | int | float | str | bytes

INT_MIN, INT_MAX = -(2**63), 2**63 - 1
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(\.[0-9]*)?|(\.[0-9]+))([eE][+-]?[0-9]+)?", re.ASCII)
NUMBER_CHARACTERS_MAX = 64  # longer text is no number


class Untyped(str):
    """Text whose sender could not say what it is."""

    __slots__ = ()


class Kind(IntEnum):
    """Kinds of values; values are ordered only within a kind. The order of kinds completes the total order."""

    BOOL = 0
    NUMBER = 1
    STRING = 2
    BYTES = 3


_KINDS: dict[type, Kind] = {
    bool: Kind.BOOL,
    int: Kind.NUMBER,
    float: Kind.NUMBER,
    str: Kind.STRING,
    Untyped: Kind.STRING,
    bytes: Kind.BYTES,
}


def kind(value: Value) -> Kind:
    return _KINDS[type(value)]


def reading(text: str) -> bool | int | float | None:
    """The number or boolean that a text reads as.

    >>> reading("20"), reading("-1.5e3"), reading("TRUE"), reading("1e999"), reading(" 1"), reading("0x10")
    (20, -1500.0, True, None, None, None)
    """
    if len(text) > NUMBER_CHARACTERS_MAX:
        return None
    found = _NUMBER.fullmatch(text)
    if found is None:
        return {"true": True, "false": False}.get(text.lower()) if text.isascii() else None
    if found[1] is None and found[2] is None and found[3] is None and INT_MIN <= int(text) <= INT_MAX:
        return int(text)
    number = float(text)
    lost = number == 0 and any(digit in "123456789" for digit in re.split("[eE]", text)[0])
    return None if math.isinf(number) or lost else number


def readings(value: Value) -> tuple[Value, ...]:
    """The value; of untyped text also what it reads as."""
    read = reading(value) if type(value) is Untyped else None
    return (value,) if read is None else (value, read)


def as_kind(value: Value, wanted: Kind) -> Value | None:
    """The value as one of this kind; None if it is none."""
    if kind(value) is wanted:
        return value
    if type(value) is Untyped and (read := reading(value)) is not None and kind(read) is wanted:
        return read
    return None


def aligned(a: Value, b: Value) -> tuple[Value, Value] | None:
    """Both as values of one kind; None if they have none in common. Two untyped texts are numbers if both can be."""
    if type(a) is Untyped and type(b) is Untyped:
        x, y = as_kind(a, Kind.NUMBER), as_kind(b, Kind.NUMBER)
        return (a, b) if x is None or y is None else (x, y)
    if kind(a) is kind(b):
        return a, b
    x, y = as_kind(a, kind(b)), as_kind(b, kind(a))
    return (x, b) if x is not None else None if y is None else (a, y)


def compare(a: Value, b: Value) -> int | None:
    """-1, 0 or 1; None when the kinds differ."""
    pair = aligned(a, b)
    return None if pair is None else (pair[0] > pair[1]) - (pair[0] < pair[1])  # type: ignore[operator]


def equal(a: Value, b: Value) -> bool:
    pair = aligned(a, b)
    return pair is not None and pair[0] == pair[1]


def sort_key(value: Value) -> tuple[Kind, Value]:
    """A total order over all values, for canonical forms."""
    return (kind(value), value)


def canonical(value: Value) -> Value:
    """One spelling per operand: a float that a 64-bit int expresses exactly becomes that int, untyped text a string."""
    if type(value) is Untyped:
        return str(value)
    if type(value) is float and value.is_integer() and INT_MIN <= value <= INT_MAX:
        return int(value)
    return value


def check(value: object) -> Value:
    """The value, of a plain type or untyped, if it may stand in a message; otherwise an error that says why not."""
    match value:
        case bool():
            return value
        case bytes():
            return bytes(value)
        case int():
            if not INT_MIN <= value <= INT_MAX:
                raise UsageError("E_VALUE_RANGE", "integer does not fit in 64 bits")
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
            return value if type(value) is Untyped else str.__str__(value)
        case _:
            raise UsageError(
                "E_VALUE_TYPE", f"a value must be bool, int, float, str or bytes, not {type(value).__name__}"
            )
