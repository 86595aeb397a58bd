"""Evaluates a selector against a message: true, false or unknown.

Only NULL, a missing property, makes a comparison unknown; values of different kinds are simply not equal, not unequal
and not ordered. AND, OR and NOT follow Kleene's three-valued logic; a value that is not a boolean counts as false
there. A tree is turned into nested functions once, so that no message pays for asking what a node is.

>>> from tidings.model.selector.parser import parse
>>> test = evaluator(parse("price > 20 OR stock = 'XYZ'"))
>>> test({"price": 50}), test({"stock": "ABC"}), test({"price": "50", "stock": "ABC"})
(True, None, False)
"""

from collections.abc import Callable
from functools import partial
from typing import TypeAlias, assert_never

from tidings.model.selector.operations import (
    Maybe,
    Properties,
    add,
    divide,
    divide_whole,
    multiply,
    negate,
    read,
    relate,
    remainder,
    subtract,
    truth,
)
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
    Operator,
    Or,
    Product,
    Signed,
    Sum,
    bounds,
)
from tidings.model.values import Kind, Untyped, Value, kind, reading

Evaluator: TypeAlias = Callable[[Properties], Maybe]

ARITHMETIC: dict[Operator, Callable[[Maybe, Maybe], Maybe]] = {
    Operator.ADD: add,
    Operator.SUB: subtract,
    Operator.MUL: multiply,
    Operator.DIV: divide,
    Operator.REM: remainder,
    Operator.WHOLE: divide_whole,
}


def evaluator(tree: Expression) -> Callable[[Properties], bool | None]:
    """A function that evaluates the tree as a condition."""
    value = _value(tree)
    return lambda properties: truth(value(properties))


def constant(node: Expression) -> Maybe:
    """The value of an expression without identifiers."""
    return _value(node)({})


def _value(node: Expression) -> Evaluator:
    match node:
        case Identifier(name=name):
            return lambda properties: read(properties, name)
        case Literal(value=value):
            return lambda properties: value
        case Signed():
            operand = _value(node.operand)
            if node.sign is Operator.SUB:
                return lambda properties: negate(operand(properties))
            return lambda properties: subtract(operand(properties), 0)  # itself if it is a number, otherwise NULL
        case Sum() | Product():
            return _chain(node)
        case Compare(op=op):
            left, right = _value(node.left), _value(node.right)
            return lambda properties: relate(op, left(properties), right(properties))
        case Between():
            return _value(bounds(node))
        case In():
            return _in(_value(node.operand), [choice.value for choice in node.choices])
        case Like():
            return partial(_like, _value(node.operand), node.pattern.matches)
        case IsNull():
            tested = _value(node.operand)
            return lambda properties: tested(properties) is None
        case Not():
            return partial(_not, _value(node.operand))
        case And():
            return partial(_and, [_value(term) for term in node.terms])
        case Or():
            return partial(_or, [_value(term) for term in node.terms])
        case _:
            assert_never(node)


def _chain(node: Sum | Product) -> Evaluator:
    first = _value(node.first)
    rest = [(ARITHMETIC[operator], _value(operand)) for operator, operand in node.rest]

    def evaluate(properties: Properties) -> Maybe:
        result = first(properties)
        for operation, operand in rest:
            result = operation(result, operand(properties))
        return result

    return evaluate


def _in(operand: Evaluator, choices: list[Value]) -> Evaluator:
    found: frozenset[tuple[Kind, Value]] = frozenset((kind(choice), choice) for choice in choices)

    def evaluate(properties: Properties) -> bool | None:
        value = operand(properties)
        if type(value) is Untyped and (read_as := reading(value)) is not None and (kind(read_as), read_as) in found:
            return True
        return None if value is None else (kind(value), value) in found

    return evaluate


def _like(operand: Evaluator, matches: Callable[[str], bool], properties: Properties) -> bool | None:
    value = operand(properties)
    return None if value is None else isinstance(value, str) and matches(value)


def _not(operand: Evaluator, properties: Properties) -> bool | None:
    result = truth(operand(properties))
    return None if result is None else not result


def _and(terms: list[Evaluator], properties: Properties) -> bool | None:
    result: bool | None = True
    for term in terms:
        one = truth(term(properties))
        if one is None:
            result = None
        elif not one:
            return False
    return result


def _or(terms: list[Evaluator], properties: Properties) -> bool | None:
    result: bool | None = False
    for term in terms:
        one = truth(term(properties))
        if one is None:
            result = None
        elif one:
            return True
    return result
