"""A constraint: one attribute, one operator, one value. The atom of predicates.

A constraint holds, or does not, for a *present* attribute; for a missing one it does not hold (MISSING is the
one exception). That is all three-valued logic needs here, because only NULL makes a comparison unknown:
`NOT c` is true exactly when the attribute is present and c does not hold, which is `c.negate()`.

>>> Constraint("price", Op.GT, 20).holds(50), Constraint("price", Op.GT, 20).holds("fifty")
(True, False)
>>> Constraint("price", Op.GT, 20).negate().holds("fifty"), Constraint("price", Op.NE, 20).holds("fifty")
(True, False)

Operands are held in one spelling (1.0 as 1, the values of IN sorted and once each), so constraints that say the same in
the same way are equal, and those whose kinds differ never are, whatever Python thinks of 1 == True.

>>> Constraint("n", Op.EQ, 1) == Constraint("n", Op.EQ, 1.0), Constraint("n", Op.EQ, 1) == Constraint("n", Op.EQ, True)
(True, False)
>>> Constraint("n", Op.IN, (3, "b", 1.0, 3)).value
(1, 3, 'b')
"""

from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any, TypeAlias

from tidings.errors import UsageError
from tidings.model.like import Pattern, topic_matches
from tidings.model.values import Kind, Value, canonical, check, compare, equal, kind, sort_key

NAME_BYTES_MAX = 255


class Op(IntEnum):
    """Operators and their numbers on the wire (docs/wire.md)."""

    EQ = 1  # equal, of the same kind
    NE = 2  # of the same kind, and not equal
    LT = 3
    LE = 4
    GT = 5
    GE = 6
    IN = 7  # equal to one of a tuple of values
    PREFIX = 8
    SUFFIX = 9
    CONTAINS = 10
    LIKE = 11  # a general pattern: % any text, _ one character, \ escapes
    TOPIC = 12  # a topic pattern: * one level, > one or more levels at the end
    EXISTS = 13
    MISSING = 14


Operand: TypeAlias = Value | tuple[Value, ...] | None


TEXT_OPS = (Op.PREFIX, Op.SUFFIX, Op.CONTAINS, Op.LIKE, Op.TOPIC)


@dataclass(frozen=True, slots=True, eq=False)
class Constraint:
    name: str
    op: Op
    value: Operand = None
    negated: bool = False
    key: tuple[Any, ...] = field(init=False, repr=False)  # equality, hash and canonical order

    def __post_init__(self) -> None:
        check_name(self.name)
        operand = _check_operand(self.op, self.value)
        if self.negated and self.op in (Op.EXISTS, Op.MISSING):
            raise UsageError("E_CONSTRAINT_NEGATED", f"{self.op.name} cannot be negated; use the opposite operator")
        values = operand if isinstance(operand, tuple) else () if operand is None else (operand,)
        key = tuple((int(kind(one)), one) for one in values)
        object.__setattr__(self, "value", operand)
        object.__setattr__(self, "key", (self.name, int(self.op), self.negated, key))

    def __eq__(self, other: object) -> bool:
        return self is other or (self.key == other.key if isinstance(other, Constraint) else NotImplemented)

    def __hash__(self) -> int:
        return hash(self.key)

    def __lt__(self, other: "Constraint") -> bool:
        return self.key < other.key

    @property
    def kinds(self) -> frozenset[Kind]:
        """The kinds of its operands: what untyped text is read as."""
        return frozenset(Kind(kind) for kind, _ in self.key[3])

    def holds(self, value: Value | None) -> bool:
        """Reports whether the constraint is true of this attribute value (None: the attribute is missing)."""
        if value is None:
            return self.op is Op.MISSING and not self.negated
        return self._holds(value) != self.negated

    def _holds(self, value: Value) -> bool:
        operand = self.value
        match self.op:
            case Op.EXISTS:
                return True
            case Op.MISSING:
                return False
            case Op.IN:
                assert isinstance(operand, tuple)
                return any(equal(value, one) for one in operand)
            case Op.PREFIX | Op.SUFFIX | Op.CONTAINS | Op.LIKE | Op.TOPIC:
                assert isinstance(operand, str)
                return isinstance(value, str) and _text_holds(self.op, value, operand)
            case _:
                assert operand is not None
                assert not isinstance(operand, tuple)
                order = compare(value, operand)
                return order is not None and _ORDERS[self.op](order)

    def negate(self) -> "Constraint":
        """True exactly where this one is false (and the attribute is present)."""
        if self.op in (Op.EXISTS, Op.MISSING):
            return replace(self, op=Op.MISSING if self.op is Op.EXISTS else Op.EXISTS)
        return replace(self, negated=not self.negated)


def check_name(name: str) -> str:
    """An attribute's name: 1 to 255 bytes of UTF-8."""
    check(name)
    if not 1 <= len(name.encode()) <= NAME_BYTES_MAX:
        raise UsageError("E_NAME_LENGTH", f"an attribute name must have 1 to {NAME_BYTES_MAX} bytes")
    return name


def _check_operand(op: Op, operand: Operand) -> Operand:
    if op in (Op.EXISTS, Op.MISSING):
        if operand is not None:
            raise UsageError("E_CONSTRAINT_OPERAND", f"{op.name} takes no operand")
        return None
    if op is Op.IN:
        if not isinstance(operand, tuple):
            raise UsageError("E_CONSTRAINT_OPERAND", "IN takes a tuple of values")
        unique = {sort_key(value): value for value in (canonical(check(one)) for one in operand)}
        return tuple(unique[key] for key in sorted(unique))
    if op in TEXT_OPS and not isinstance(operand, str):
        raise UsageError("E_CONSTRAINT_OPERAND", f"{op.name} takes a string")
    return canonical(check(operand))


def _text_holds(op: Op, text: str, operand: str) -> bool:
    match op:
        case Op.PREFIX:
            return text.startswith(operand)
        case Op.SUFFIX:
            return text.endswith(operand)
        case Op.CONTAINS:
            return operand in text
        case Op.TOPIC:
            return topic_matches(operand, text)
        case _:
            return Pattern.parse(operand).matches(text)


_ORDERS = {
    Op.EQ: lambda order: order == 0,
    Op.NE: lambda order: order != 0,
    Op.LT: lambda order: order < 0,
    Op.LE: lambda order: order <= 0,
    Op.GT: lambda order: order > 0,
    Op.GE: lambda order: order >= 0,
}
