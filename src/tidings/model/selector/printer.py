"""From a tree to its canonical text: keywords in capitals, one space, no parenthesis that is not needed.

`parse(to_text(tree)) == tree` for every canonical tree.

>>> from tidings.model.selector.parser import parse
>>> to_text(parse("not(a in('x') )and((b)>=- 5 or c is not null)"))
"a NOT IN ('x') AND (b >= -5 OR c IS NOT NULL)"
"""

from typing import assert_never

from tidings.model.constraint import Op
from tidings.model.like import ESCAPE
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
from tidings.model.values import Value

_OR, _AND, _NOT, _COMPARE, _SUM, _PRODUCT, _SIGN, _ATOM = range(1, 9)

_RELATIONS = {Op.EQ: "=", Op.NE: "<>", Op.LT: "<", Op.LE: "<=", Op.GT: ">", Op.GE: ">="}


def to_text(tree: Expression) -> str:
    return _print(tree, _OR)


def _print(node: Expression, level: int) -> str:
    """The text of a node where everything looser than `level` needs parentheses."""
    binding, text = _spell(node)
    return text if binding >= level else f"({text})"


def _spell(node: Expression) -> tuple[int, str]:
    match node:
        case Identifier():
            return _ATOM, node.name
        case Literal():
            return _ATOM, _literal(node.value)
        case Signed():
            return _SIGN, f"{node.sign}{_print(node.operand, _SIGN)}"
        case Sum():
            return _SUM, _chain(node, _SUM)
        case Product():
            return _PRODUCT, _chain(node, _PRODUCT)
        case Compare():
            return _COMPARE, f"{_print(node.left, _SUM)} {_RELATIONS[node.op]} {_print(node.right, _SUM)}"
        case Between() | In() | Like() | IsNull():
            return _COMPARE, _test(node, negated=False)
        case Not(operand=(Between() | In() | Like() | IsNull()) as test):
            return _COMPARE, _test(test, negated=True)
        case Not():
            return _NOT, f"NOT {_print(node.operand, _NOT)}"
        case And():
            return _AND, " AND ".join([_print(term, _NOT) for term in node.terms])
        case Or():
            return _OR, " OR ".join([_print(term, _AND) for term in node.terms])
        case _:
            assert_never(node)


def _chain(node: Sum | Product, level: int) -> str:
    parts = [_print(node.first, level)]
    for operator, operand in node.rest:
        parts += (operator, _print(operand, level + 1))
    return " ".join(parts)


def _test(node: Between | In | Like | IsNull, negated: bool) -> str:
    operand, word = _print(node.operand, _SUM), "NOT " if negated else ""
    match node:
        case Between():
            return f"{operand} {word}BETWEEN {_print(node.low, _SUM)} AND {_print(node.high, _SUM)}"
        case In():
            return f"{operand} {word}IN ({', '.join([_literal(one.value) for one in node.choices])})"
        case Like(pattern=pattern):
            if pattern.plain:
                return f"{operand} {word}LIKE {_literal(pattern.spell(None))}"
            return f"{operand} {word}LIKE {_literal(pattern.text)} ESCAPE {_literal(ESCAPE)}"
        case IsNull():
            return f"{operand} IS {word}NULL"
        case _:
            assert_never(node)


def _literal(value: Value) -> str:
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return repr(value)
