"""Checks a selector against attributes whose kinds are known: values of different kinds never compare as true, so a
selector that compares them is a mistake.

>>> from tidings.model.selector.parser import parse
>>> declared = {"price": Kind.NUMBER, "buyer": Kind.STRING}
>>> check_kinds(parse("price * 2 > 20 AND (buyer LIKE 'm%' OR JMSPriority = 9)"), declared)
>>> check_kinds(parse("price > 20 AND buyer = 5"), declared)
Traceback (most recent call last):
    ...
tidings.errors.SelectorError: E_SELECTOR_KIND at 15: 'buyer' is a string and is compared with a number
"""

from collections.abc import Iterable, Mapping
from typing import assert_never

from tidings.errors import SelectorError
from tidings.model.selector.syntax import (
    And,
    Between,
    Compare,
    Expression,
    Identifier,
    In,
    IsNull,
    Like,
    Literal,
    Not,
    Or,
    Product,
    Signed,
    Sum,
)
from tidings.model.values import Kind, kind

_NAMES = {Kind.BOOL: "a boolean", Kind.NUMBER: "a number", Kind.STRING: "a string", Kind.BYTES: "bytes"}


def check_kinds(tree: Expression, declared: Mapping[str, Kind]) -> None:
    """An error says which part compares values of different kinds. Names that are not declared may be of any kind."""
    found = _kind(tree, declared)
    if found not in (None, Kind.BOOL):
        _refuse(tree, found, "is used as a condition")


def _kind(node: Expression, declared: Mapping[str, Kind]) -> Kind | None:
    """None: unknown."""
    match node:
        case Identifier(name=name):
            return declared.get(name)
        case Literal(value=value):
            return kind(value)
        case Signed(operand=operand):
            return _all_numbers((operand,), declared)
        case Sum(first=first, rest=rest) | Product(first=first, rest=rest):
            return _all_numbers((first, *(operand for _, operand in rest)), declared)
        case Compare(left=left, right=right):
            _compare(left, (right,), declared)
        case Between(operand=operand, low=low, high=high):
            _compare(operand, (low, high), declared)
        case In(operand=operand, choices=choices):
            _compare(operand, choices, declared)
        case Like(operand=operand):
            if (found := _kind(operand, declared)) not in (None, Kind.STRING):
                _refuse(operand, found, "is compared with a pattern")
        case IsNull():
            pass
        case Not(operand=operand):
            check_kinds(operand, declared)
        case And(terms=terms) | Or(terms=terms):
            for term in terms:
                check_kinds(term, declared)
        case _:
            assert_never(node)
    return Kind.BOOL


def _all_numbers(operands: Iterable[Expression], declared: Mapping[str, Kind]) -> Kind:
    for operand in operands:
        if (found := _kind(operand, declared)) not in (None, Kind.NUMBER):
            _refuse(operand, found, "is computed with")
    return Kind.NUMBER


def _compare(left: Expression, others: Iterable[Expression], declared: Mapping[str, Kind]) -> None:
    first = _kind(left, declared)
    for other in others:
        second = _kind(other, declared)
        if first is not None and second is not None and first is not second:
            if isinstance(left, Identifier) or not isinstance(other, Identifier):
                _refuse(left, first, f"is compared with {_NAMES[second]}")
            _refuse(other, second, f"is compared with {_NAMES[first]}")


def _refuse(node: Expression, found: Kind | None, what: str) -> None:
    assert found is not None
    named = repr(node.name) if isinstance(node, Identifier) else "a value"
    raise SelectorError("E_SELECTOR_KIND", f"{named} is {_NAMES[found]} and {what}", position=node.position)
