"""Categories: properties that attributes carry and constraints ask for, in a form that can be hashed.

A message carries the categories of its attributes. A constraint asks for categories that every attribute satisfying
it carries; where no single set is enough (`x IN (1, 2)`), for one of several *alternatives*. So "all categories asked
for are there" is a necessary condition of a match, and testing it takes nothing but set inclusion.

A category is bytes (docs/wire.md, "Encoded predicate"), hashed together with the attribute's name. *Plain* categories,
here, are the paper's: the attribute exists with this kind of value; it has this value. `graded` has finer ones.

>>> from tidings.model.constraint import Op
>>> plain = PlainGrade()
>>> set(plain.carried("price", 50)) >= set(plain.asked([Constraint("price", Op.GT, 20)])[0].finest[0])
True
"""

import math
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from tidings.model.constraint import Constraint, Op
from tidings.model.values import INT_MAX, INT_MIN, Kind, Value, kind, readings

Category: TypeAlias = tuple[str, bytes]  # the attribute's name, what is said of it
Alternative: TypeAlias = tuple[Category, ...]  # all of these

# Made from a message's fixed part, different for nearly every message or nearly the same for all: not worth a category.
UNSPOKEN = frozenset({"JMSMessageID", "JMSTimestamp", "JMSPriority", "JMSDeliveryMode"})

EXISTS, EQUALS = 1, 2


@dataclass(frozen=True, slots=True)
class Demand:
    """The categories that one or more constraints ask for: one alternative of a level. Levels grow shorter and less
    specific; the last asks for nothing, so there is always one that fits."""

    levels: tuple[tuple[Alternative, ...], ...]

    @property
    def finest(self) -> tuple[Alternative, ...]:
        return self.levels[0]


NOTHING: tuple[Alternative, ...] = ((),)


class Grade(Protocol):
    """A way to categorise. If the attributes satisfy the constraints, then for each demand and each of its levels some
    alternative consists of carried categories only."""

    def carried(self, name: str, value: Value) -> Iterable[Category]: ...
    def asked(self, constraints: Sequence[Constraint]) -> list[Demand]: ...


def exists(name: str, one: Kind) -> Category:
    return name, bytes((EXISTS, one))


def equals(name: str, value: Value) -> Category:
    return name, bytes((EQUALS, kind(value))) + canonical(value)


def canonical(value: Value) -> bytes:
    """Equal values, and no others of the same kind, have equal bytes.

    >>> canonical(2.0) == canonical(2) != canonical(2.5), canonical(-0.0) == canonical(0)
    (True, True)
    """
    match value:
        case bool():
            return bytes((value,))
        case str():
            return value.encode()
        case bytes():
            return value
        case float() if math.isinf(value) or not value.is_integer() or not INT_MIN <= value <= INT_MAX:
            return b"\x01" + struct.pack("<d", value)
        case _:
            return b"\x00" + struct.pack("<q", int(value))


def exists_somehow(name: str) -> Demand:
    """The attribute is there, of whichever kind."""
    return Demand((tuple((exists(name, one),) for one in Kind), NOTHING))


def any_of(name: str, values: Sequence[Value]) -> Demand:
    kinds = sorted({kind(value) for value in values})
    each = tuple((equals(name, value),) for value in values)
    return Demand((each, tuple((exists(name, one),) for one in kinds), NOTHING))


def plainly(constraint: Constraint) -> Demand:
    """Returns the plain categories that a constraint asks for."""
    name, value = constraint.name, constraint.value
    if constraint.op is Op.MISSING or name in UNSPOKEN:
        return Demand((NOTHING,))
    if constraint.negated or constraint.op is Op.EXISTS:
        return exists_somehow(name)
    if constraint.op is Op.IN:
        assert isinstance(value, tuple)
        return any_of(name, value)
    assert value is not None
    assert not isinstance(value, tuple)
    if constraint.op is Op.EQ:
        return Demand((((equals(name, value),),), NOTHING))
    return Demand((((exists(name, kind(value)),),), NOTHING))


class PlainGrade:
    def carried(self, name: str, value: Value) -> list[Category]:
        if name in UNSPOKEN:
            return []
        return [one for read in readings(value) for one in (exists(name, kind(read)), equals(name, read))]

    def asked(self, constraints: Sequence[Constraint]) -> list[Demand]:
        return [plainly(constraint) for constraint in constraints]
