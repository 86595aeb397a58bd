"""From tokens to a tree, by precedence climbing (Richards 1979; Pratt 1973).

One function, `_expression(level)`, reads an operand and then every operator that binds at least as tightly as `level`.
Chains (a AND b AND c) are read in a loop, so only parentheses, NOT and signs nest, and those are counted.
Conditions and values share one grammar; what must be a condition and what a number is checked when the operator is
applied, which gives better messages than a grammar that keeps them apart.

    loosest  1 OR   2 AND   3 NOT   4 = <> < <= > >= BETWEEN IN LIKE IS   5 + -   6 * / %   7 sign   tightest

>>> parse("NOT stock = 'XYZ'")
Not(operand=Compare(op=<Op.EQ: 1>, left=Identifier(name='stock'), right=Literal(value='XYZ')))
"""

from collections.abc import Callable
from typing import NoReturn

from tidings.errors import SelectorError
from tidings.model.constraint import Op
from tidings.model.like import Pattern
from tidings.model.selector import syntax
from tidings.model.selector.lexer import Symbol, Token, describe, tokenize
from tidings.model.selector.syntax import Expression, Identifier, Literal, Operator, static_kind
from tidings.model.values import INT_MAX, INT_MIN, Kind

VERSION = 2
"""Of the language. What a version means never changes: a durable subscription may have been made in an earlier one."""
DEPTH_MAX = 64
"""Levels of parentheses, NOT and signs inside each other."""
CHOICES_MAX = 4096
"""Literals in the list of one IN."""
PATTERN_MAX = 4096
"""Characters in the pattern of a LIKE."""

_OR, _AND, _NOT, _COMPARE, _SUM, _PRODUCT, _SIGN = range(1, 8)

_COMPARISONS = {
    Symbol.EQ: Op.EQ,
    Symbol.NE: Op.NE,
    Symbol.LT: Op.LT,
    Symbol.LE: Op.LE,
    Symbol.GT: Op.GT,
    Symbol.GE: Op.GE,
}
_SUMS = {Symbol.ADD: Operator.ADD, Symbol.SUB: Operator.SUB}
_PRODUCTS = {Symbol.MUL: Operator.MUL, Symbol.DIV: Operator.DIV, Symbol.REM: Operator.REM}
_PRODUCTS_1 = _PRODUCTS | {Symbol.DIV: Operator.WHOLE}


def parse(text: str, version: int = VERSION) -> Expression:
    """The tree of a selector; blank text is TRUE. In version 1 of the language `/` drops the fraction of ints."""
    tokens = tokenize(text)
    if len(tokens) == 1:
        return Literal(True)
    return _Parser(tokens, _PRODUCTS_1 if version == 1 else _PRODUCTS).selector()


class _Parser:
    def __init__(self, tokens: list[Token], products: dict[Symbol, Operator]) -> None:
        self.tokens = tokens
        self.products = products
        self.index = 0
        self.symbol = tokens[0].symbol  # of the token at `index`
        self.depth = 0

    def selector(self) -> Expression:
        tree = _condition(self._expression(_OR), "a selector")
        if self.symbol is not Symbol.END:
            self._unexpected("an operator")
        return tree

    def _advance(self) -> Token:
        token = self.tokens[self.index]
        self.index += 1
        self.symbol = self.tokens[self.index].symbol
        return token

    def _expect(self, symbol: Symbol) -> Token:
        if self.symbol is not symbol:
            self._unexpected(describe(symbol))
        return self._advance()

    def _unexpected(self, wanted: str) -> NoReturn:
        token = self.tokens[self.index]
        raise _syntax(f"expected {wanted}, found {describe(token.symbol)}", token.position)

    def _expression(self, level: int) -> Expression:
        left = self._operand(level)
        while True:
            binding = _BINDINGS.get(self.symbol)
            if binding is None or binding[0] < level:
                return left
            left = binding[1](self, left)

    def _nested(self, level: int, position: int) -> Expression:
        if self.depth == DEPTH_MAX:
            raise SelectorError(
                "E_SELECTOR_LIMIT", f"selector is nested deeper than {DEPTH_MAX} levels", position=position
            )
        self.depth += 1
        inside = self._expression(level)
        self.depth -= 1
        return inside

    def _operand(self, level: int) -> Expression:
        """Whatever an expression may begin with."""
        symbol = self.symbol
        if symbol is Symbol.IDENTIFIER:
            return self._identifier()
        if symbol is Symbol.OPEN:
            inside = self._nested(_OR, self._advance().position)
            self._expect(Symbol.CLOSE)
            return inside
        if symbol is Symbol.NOT:
            position = self._advance().position
            if level > _NOT:
                raise _syntax("NOT needs parentheses around it here", position)
            return syntax.Not(_condition(self._nested(_NOT, position), "NOT"), position=position)
        if symbol in _SUMS:
            return self._signed()
        return self._literal("a value")

    def _identifier(self) -> Expression:
        """A name, or EXISTS and a name in parentheses. (EXISTS is no keyword: properties may be called so.)"""
        token = self._advance()
        assert isinstance(token.value, str)
        if self.symbol is not Symbol.OPEN or token.value.upper() != "EXISTS":
            return Identifier(token.value, position=token.position)
        self._advance()
        name = self._expect(Symbol.IDENTIFIER)
        self._expect(Symbol.CLOSE)
        assert isinstance(name.value, str)
        missing = syntax.IsNull(Identifier(name.value, position=name.position), position=token.position)
        return syntax.Not(missing, position=token.position)

    def _signed(self) -> Expression:
        sign, _, position = self._advance()
        token = self.tokens[self.index]
        if sign is Symbol.SUB and token.symbol is Symbol.NUMBER and token.value == -INT_MIN:
            self._advance()
            return Literal(INT_MIN if type(token.value) is int else float(INT_MIN), position=position)
        operand = _number(self._nested(_SIGN, position), f"the sign {describe(sign)}")
        return syntax.signed(_SUMS[sign], operand, position)

    def _literal(self, wanted: str) -> Literal:
        symbol, value, position = self.tokens[self.index]
        match symbol:
            case Symbol.STRING:
                assert value is not None
            case Symbol.NUMBER:
                assert value is not None
                if type(value) is int and value > INT_MAX:
                    raise SelectorError("E_SELECTOR_LITERAL", f"{value} does not fit in 64 bits", position=position)
            case Symbol.TRUE | Symbol.FALSE:
                value = symbol is Symbol.TRUE
            case _:
                self._unexpected(wanted)
        self._advance()
        return Literal(value, position=position)

    # What follows an operand. Each takes the operand on the left and stands before its operator.

    def _or(self, left: Expression) -> Expression:
        terms = [_condition(left, "OR")]
        while self.symbol is Symbol.OR:
            self._advance()
            terms.append(_condition(self._expression(_AND), "OR"))
        return syntax.either(terms)

    def _and(self, left: Expression) -> Expression:
        terms = [_condition(left, "AND")]
        while self.symbol is Symbol.AND:
            self._advance()
            terms.append(_condition(self._expression(_NOT), "AND"))
        return syntax.both(terms)

    def _sum(self, left: Expression) -> Expression:
        return self._chain(syntax.Sum, left, _SUMS, _PRODUCT)

    def _product(self, left: Expression) -> Expression:
        return self._chain(syntax.Product, left, self.products, _SIGN)

    def _chain(
        self,
        cls: type[syntax.Sum] | type[syntax.Product],
        left: Expression,
        operators: dict[Symbol, Operator],
        level: int,
    ) -> Expression:
        _number(left, describe(self.symbol))
        rest = []
        while self.symbol in operators:
            symbol = self._advance().symbol
            rest.append((operators[symbol], _number(self._expression(level), describe(symbol))))
        return syntax.chain(cls, left, rest)

    def _compare(self, left: Expression) -> Expression:
        symbol = self._advance().symbol
        right = self._expression(_SUM)
        if symbol is not Symbol.EQ and symbol is not Symbol.NE:
            _ordered(left, describe(symbol))
            _ordered(right, describe(symbol))
        _comparable(left, right)
        return self._end_comparison(syntax.Compare(_COMPARISONS[symbol], left, right, position=left.position))

    def _not_compare(self, left: Expression) -> Expression:
        """`x NOT IN ...` and its like."""
        self._advance()
        handler = _NEGATABLE.get(self.symbol)
        if handler is None:
            self._unexpected("IN, LIKE or BETWEEN")
        return syntax.Not(handler(self, left), position=left.position)

    def _between(self, left: Expression) -> Expression:
        self._advance()
        _ordered(left, "BETWEEN")
        low = _ordered(self._expression(_SUM), "BETWEEN")
        self._expect(Symbol.AND)
        high = _ordered(self._expression(_SUM), "BETWEEN")
        return self._end_comparison(syntax.Between(left, low, high, position=left.position))

    def _in(self, left: Expression) -> Expression:
        position = self._advance().position
        self._expect(Symbol.OPEN)
        choices = [self._choice()]
        while self.symbol is Symbol.COMMA:
            self._advance()
            if len(choices) == CHOICES_MAX:
                raise SelectorError("E_SELECTOR_LIMIT", f"IN of more than {CHOICES_MAX} literals", position=position)
            choices.append(self._choice())
        self._expect(Symbol.CLOSE)
        return self._end_comparison(syntax.In(left, tuple(choices), position=left.position))

    def _choice(self) -> Literal:
        if self.symbol not in _SUMS:
            return self._literal("a literal")
        position = self.tokens[self.index].position
        choice = self._signed()
        if not isinstance(choice, Literal):
            raise _syntax("expected a literal", position)
        return choice

    def _like(self, left: Expression) -> Expression:
        self._advance()
        text, position = self._text("LIKE")
        if len(text) > PATTERN_MAX:
            raise SelectorError("E_SELECTOR_LIMIT", f"pattern longer than {PATTERN_MAX} characters", position=position)
        escape = None
        if self.symbol is Symbol.ESCAPE:
            self._advance()
            escape, escape_position = self._text("ESCAPE")
            if len(escape) != 1:
                raise _literal_error("ESCAPE needs exactly one character", escape_position)
            if _ends_inside_escape(text, escape):
                raise _literal_error("the pattern ends with its escape character", position)
        return self._end_comparison(syntax.Like(left, Pattern.parse(text, escape), position=left.position))

    def _text(self, after: str) -> tuple[str, int]:
        token = self.tokens[self.index]
        if token.symbol is not Symbol.STRING:
            if token.symbol in _VALUES:
                raise _type_error(f"{after} needs a string literal", token.position)
            self._unexpected("a string")
        self._advance()
        assert isinstance(token.value, str)
        return token.value, token.position

    def _is(self, left: Expression) -> Expression:
        self._advance()
        negated = self.symbol is Symbol.NOT
        if negated:
            self._advance()
        self._expect(Symbol.NULL)
        test = self._end_comparison(syntax.IsNull(left, position=left.position))
        return syntax.Not(test, position=left.position) if negated else test

    def _end_comparison(self, node: Expression) -> Expression:
        binding = _BINDINGS.get(self.symbol)
        if binding is not None and binding[0] == _COMPARE:
            position = self.tokens[self.index].position
            raise _syntax("comparisons do not chain; use parentheses", position)
        return node


_Handler = Callable[[_Parser, Expression], Expression]

_NEGATABLE: dict[Symbol, _Handler] = {
    Symbol.BETWEEN: _Parser._between,
    Symbol.IN: _Parser._in,
    Symbol.LIKE: _Parser._like,
}
_BINDINGS: dict[Symbol, tuple[int, _Handler]] = {
    Symbol.OR: (_OR, _Parser._or),
    Symbol.AND: (_AND, _Parser._and),
    Symbol.NOT: (_COMPARE, _Parser._not_compare),
    Symbol.IS: (_COMPARE, _Parser._is),
    **{symbol: (_COMPARE, handler) for symbol, handler in _NEGATABLE.items()},
    **dict.fromkeys(_COMPARISONS, (_COMPARE, _Parser._compare)),
    **dict.fromkeys(_SUMS, (_SUM, _Parser._sum)),
    **dict.fromkeys(_PRODUCTS, (_PRODUCT, _Parser._product)),
}
_VALUES = {Symbol.IDENTIFIER, Symbol.NUMBER, Symbol.TRUE, Symbol.FALSE}


def _condition(node: Expression, user: str) -> Expression:
    if static_kind(node) not in (None, Kind.BOOL):
        raise _type_error(f"{user} needs a condition, not a value", node.position)
    return node


def _number(node: Expression, user: str) -> Expression:
    if static_kind(node) not in (None, Kind.NUMBER):
        raise _type_error(f"{user} needs a number", node.position)
    return node


def _ordered(node: Expression, user: str) -> Expression:
    if static_kind(node) is Kind.BOOL:
        raise _type_error(f"{user} needs numbers or strings: booleans have no order", node.position)
    return node


def _comparable(left: Expression, right: Expression) -> None:
    """Refuses a boolean beside a number or a string: the comparison would never be true."""
    kinds = static_kind(left), static_kind(right)
    if None not in kinds and kinds.count(Kind.BOOL) == 1:
        raise _type_error("a boolean is only compared with booleans", right.position)


def _ends_inside_escape(text: str, escape: str) -> bool:
    """Reports whether the last character is an escape that is not itself escaped."""
    return (len(text) - len(text.rstrip(escape))) % 2 == 1


def _syntax(reason: str, position: int) -> SelectorError:
    return SelectorError("E_SELECTOR_SYNTAX", reason, position=position)


def _type_error(reason: str, position: int) -> SelectorError:
    return SelectorError("E_SELECTOR_TYPE", reason, position=position)


def _literal_error(reason: str, position: int) -> SelectorError:
    return SelectorError("E_SELECTOR_LITERAL", reason, position=position)
