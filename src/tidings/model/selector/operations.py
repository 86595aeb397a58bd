"""The operators on values, where None is NULL (docs/wire.md, "Program"). One place for tree and program.

Two ints give an int, or the nearest float where the exact result does not fit in 64 bits. Only their quotient may have
a fraction: it is the quotient of the nearest floats then. A remainder has the sign of the dividend. An int divided by
int zero is NULL. A float operand makes it float arithmetic as in IEEE 754, except that a NaN is NULL. What is not a
number makes NULL. `divide_whole` is the quotient without its fraction that `/` was in version 1.

>>> divide(10, 4), divide(10, 5), divide(7, 0), divide(7, 0.0), divide_whole(-7, 2)
(2.5, 2, None, inf, -3)
>>> remainder(-7, 3), remainder(7.5, -2), remainder(1, 0), add(2**63 - 1, 1), add("a", 1)
(-1, 1.5, None, 9.223372036854776e+18, None)
"""

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from tidings.model.constraint import Op
from tidings.model.values import INT_MAX, INT_MIN, Kind, Untyped, Value, aligned, as_kind, check, reading

Maybe: TypeAlias = Value | None
Properties: TypeAlias = Mapping[str, Maybe]

_NUMBERS = frozenset((int, float))


def read(properties: Properties, name: str) -> Maybe:
    """A property as a value; NaN counts as NULL, what is no value is a UsageError."""
    value = properties.get(name)
    if value is None or type(value) is str or type(value) is bool:
        return value
    if isinstance(value, float) and math.isnan(value):
        return None
    return check(value)  # which also makes an IntEnum, say, a plain int


def relate(op: Op, a: Maybe, b: Maybe) -> bool | None:
    """A comparison: unknown for NULL, false for different kinds."""
    if a is None or b is None:
        return None
    pair = aligned(a, b)
    return pair is not None and _RELATIONS[op](*pair)


def truth(value: Maybe) -> bool | None:
    """A value as a condition: what is not a boolean is false."""
    if type(value) is Untyped:
        return reading(value) is True
    return None if value is None else value is True


_RELATIONS: dict[Op, Callable[[Any, Any], bool]] = {
    Op.EQ: operator.eq,
    Op.NE: operator.ne,
    Op.LT: operator.lt,
    Op.LE: operator.le,
    Op.GT: operator.gt,
    Op.GE: operator.ge,
}


def _arithmetic(operation: Callable[[Any, Any], Any]) -> Callable[[Maybe, Maybe], Maybe]:
    """An operation on numbers, made fit for all values and its result for 64 bits."""

    def apply(a: Maybe, b: Maybe) -> Maybe:
        if type(a) is Untyped:
            a = as_kind(a, Kind.NUMBER)
        if type(b) is Untyped:
            b = as_kind(b, Kind.NUMBER)
        if type(a) not in _NUMBERS or type(b) not in _NUMBERS:
            return None
        result = operation(a, b)
        if type(result) is int and not INT_MIN <= result <= INT_MAX:
            return float(result)
        return None if result != result else result  # NaN is NULL

    return apply


def _quotient(a: float, b: float) -> float | None:
    if type(a) is int and type(b) is int:
        if b == 0:
            return None
        return a // b if a % b == 0 else float(a) / float(b)
    if b == 0:  # Python raises where IEEE 754 has an answer
        return None if a == 0 else math.copysign(math.inf, a) * math.copysign(1.0, b)
    return a / b


def _whole_quotient(a: float, b: float) -> float | None:
    if type(a) is int and type(b) is int and b != 0:
        whole = abs(a) // abs(b)
        return whole if (a < 0) == (b < 0) else -whole
    return _quotient(a, b)


def _remainder(a: float, b: float) -> float | None:
    if b == 0 or math.isinf(a):
        return None
    if type(a) is int and type(b) is int:
        rest = abs(a) % abs(b)
        return rest if a >= 0 else -rest
    return math.fmod(a, b)


add = _arithmetic(operator.add)
subtract = _arithmetic(operator.sub)
multiply = _arithmetic(operator.mul)
divide = _arithmetic(_quotient)
divide_whole = _arithmetic(_whole_quotient)
remainder = _arithmetic(_remainder)


def negate(a: Maybe) -> Maybe:
    return multiply(a, -1)  # for floats too: it turns the sign of zero as well
