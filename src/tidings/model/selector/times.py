"""Moments in selectors: text that is compared with an attribute of type time becomes the milliseconds it stands for.

>>> from tidings.model.selector.parser import parse
>>> from tidings.model.selector.printer import to_text
>>> to_text(with_times(parse("at >= '2025-11-01' AND buyer = '2025-11-01'"), {"at"}))
"at >= 1761955200000 AND buyer = '2025-11-01'"
>>> with_times(parse("at < 'yesterday'"), {"at"})
Traceback (most recent call last):
    ...
tidings.errors.SelectorError: E_SELECTOR_TIME at 5: 'yesterday' is no time; write it as '2025-11-01T12:26:40Z'
"""

from collections.abc import Collection
from dataclasses import replace
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
from tidings.model.timestamps import parse_timestamp


def with_times(node: Expression, names: Collection[str]) -> Expression:
    """The same condition; `names`: the attributes of type time."""
    match node:
        case Compare(left=left, right=right):
            return replace(node, left=_moment(left, right, names), right=_moment(right, left, names))
        case Between(operand=operand, low=low, high=high):
            return replace(node, low=_moment(low, operand, names), high=_moment(high, operand, names))
        case In(operand=operand, choices=choices):
            return replace(node, choices=tuple(_literal(one, operand, names) for one in choices))
        case Not(operand=operand):
            return replace(node, operand=with_times(operand, names))
        case And(terms=terms) | Or(terms=terms):
            return replace(node, terms=tuple(with_times(term, names) for term in terms))
        case Identifier() | Literal() | Signed() | Sum() | Product() | Like() | IsNull():
            return node
        case _:
            assert_never(node)


def _moment(node: Expression, other: Expression, names: Collection[str]) -> Expression:
    return _literal(node, other, names) if isinstance(node, Literal) else node


def _literal(node: Literal, other: Expression, names: Collection[str]) -> Literal:
    if not isinstance(node.value, str) or not isinstance(other, Identifier) or other.name not in names:
        return node
    if (ms := parse_timestamp(node.value)) is None:
        reason = f"{node.value!r} is no time; write it as '2025-11-01T12:26:40Z'"
        raise SelectorError("E_SELECTOR_TIME", reason, position=node.position)
    return replace(node, value=ms)
