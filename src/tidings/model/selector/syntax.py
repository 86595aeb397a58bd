"""The tree a selector's text becomes.

A tree is canonical: chains of AND, OR, `+ -` and `* / %` are one flat node (so a long chain is not a deep tree), a sign
before a number is part of the number, and `x NOT IN (...)` is NOT of `x IN (...)`. The functions at the end of this
file build such trees; two texts that differ only in spelling give equal trees. Positions (offset of the first
character) take no part in equality.

>>> both([Identifier("a"), both([Identifier("b"), Identifier("c")])]) == both(map(Identifier, "abc"))
True
>>> Literal(1) == Literal(1.0), Literal(1) == Literal(True), signed(Operator.SUB, Literal(5))
(False, False, Literal(value=-5))
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias, assert_never

from tidings.model.constraint import Op
from tidings.model.like import Pattern
from tidings.model.selector.operations import negate
from tidings.model.values import Kind, Value, kind


class Operator(StrEnum):
    """Arithmetic, and the two signs. WHOLE drops the fraction of ints, as `/` did in version 1 of the language."""

    ADD = "+"
    SUB = "-"
    MUL = "*"
    DIV = "/"
    REM = "%"
    WHOLE = "DIV"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Node:
    position: int = field(default=0, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Identifier(_Node):
    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Literal(_Node):
    value: Value

    def _key(self) -> tuple[type, str]:
        return type(self.value), str(self.value)  # 1, 1.0 and True are equal in Python, and so are 0.0 and -0.0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Literal) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())


@dataclass(frozen=True, slots=True)
class Signed(_Node):
    """A sign before something that is not a number literal."""

    sign: Operator
    operand: "Expression"


@dataclass(frozen=True, slots=True)
class Sum(_Node):
    """`first` and then, from left to right, what is added or subtracted."""

    first: "Expression"
    rest: tuple[tuple[Operator, "Expression"], ...]


@dataclass(frozen=True, slots=True)
class Product(_Node):
    """`first` and then, from left to right, what it is multiplied with or divided by, with or without the remainder."""

    first: "Expression"
    rest: tuple[tuple[Operator, "Expression"], ...]


@dataclass(frozen=True, slots=True)
class Compare(_Node):
    op: Op  # EQ to GE
    left: "Expression"
    right: "Expression"


@dataclass(frozen=True, slots=True)
class Between(_Node):
    operand: "Expression"
    low: "Expression"
    high: "Expression"


@dataclass(frozen=True, slots=True)
class In(_Node):
    operand: "Expression"
    choices: tuple[Literal, ...]


@dataclass(frozen=True, slots=True)
class Like(_Node):
    operand: "Expression"
    pattern: Pattern


@dataclass(frozen=True, slots=True)
class IsNull(_Node):
    operand: "Expression"


@dataclass(frozen=True, slots=True)
class Not(_Node):
    operand: "Expression"


@dataclass(frozen=True, slots=True)
class And(_Node):
    terms: tuple["Expression", ...]


@dataclass(frozen=True, slots=True)
class Or(_Node):
    terms: tuple["Expression", ...]


Expression: TypeAlias = (
    Identifier | Literal | Signed | Sum | Product | Compare | Between | In | Like | IsNull | Not | And | Or
)


def both(terms: Iterable[Expression]) -> Expression:
    """AND of one or more terms, without an AND directly inside."""
    flat = [part for term in terms for part in (term.terms if isinstance(term, And) else (term,))]
    return flat[0] if len(flat) == 1 else And(tuple(flat), position=flat[0].position)


def either(terms: Iterable[Expression]) -> Expression:
    """OR of one or more terms, without an OR directly inside."""
    flat = [part for term in terms for part in (term.terms if isinstance(term, Or) else (term,))]
    return flat[0] if len(flat) == 1 else Or(tuple(flat), position=flat[0].position)


def chain(cls: type[Sum] | type[Product], first: Expression, rest: Iterable[tuple[Operator, Expression]]) -> Expression:
    """A sum or product, flat on its left side (the right side is not flattened: floats are not associative)."""
    rest = tuple(rest)
    if isinstance(first, cls):
        return cls(first.first, first.rest + rest, position=first.position)
    return cls(first, rest, position=first.position) if rest else first


def signed(sign: Operator, operand: Expression, position: int = 0) -> Expression:
    if isinstance(operand, Literal) and static_kind(operand) is Kind.NUMBER:
        value = negate(operand.value) if sign is Operator.SUB else operand.value
        assert value is not None
        return Literal(value, position=position)
    return Signed(sign, operand, position=position)


def bounds(node: Between) -> And:
    """The two comparisons that BETWEEN abbreviates: `operand >= low AND operand <= high`."""
    low = Compare(Op.GE, node.operand, node.low, position=node.position)
    return And((low, Compare(Op.LE, node.operand, node.high, position=node.position)), position=node.position)


def static_kind(node: Expression) -> Kind | None:
    """The kind its value has if it is not NULL, whatever the message; None for an identifier: any kind."""
    match node:
        case Identifier():
            return None
        case Literal():
            return kind(node.value)
        case Signed() | Sum() | Product():
            return Kind.NUMBER
        case Compare() | Between() | In() | Like() | IsNull() | Not() | And() | Or():
            return Kind.BOOL
        case _:
            assert_never(node)


def children(node: Expression) -> tuple[Expression, ...]:
    match node:
        case Identifier() | Literal():
            return ()
        case Signed() | In() | Like() | IsNull() | Not():
            return (node.operand,)
        case Sum() | Product():
            return (node.first, *(operand for _, operand in node.rest))
        case Compare():
            return (node.left, node.right)
        case Between():
            return (node.operand, node.low, node.high)
        case And() | Or():
            return node.terms
        case _:
            assert_never(node)


def walk(node: Expression) -> Iterator[Expression]:
    """The node and everything below it, in the order of the text."""
    waiting = [node]
    while waiting:
        one = waiting.pop()
        yield one
        waiting.extend(reversed(children(one)))
