import pytest
from hardening.support.strategies import token_soup
from hypothesis import example, given
from hypothesis import strategies as st

from tidings.errors import SelectorError
from tidings.model.constraint import Op
from tidings.model.like import Pattern
from tidings.model.selector.lexer import TEXT_MAX, TOKENS_MAX
from tidings.model.selector.parser import CHOICES_MAX, DEPTH_MAX, PATTERN_MAX, parse
from tidings.model.selector.syntax import (
    And,
    Between,
    Compare,
    Expression,
    Identifier,
    In,
    Like,
    Literal,
    Not,
    Operator,
    Or,
    Product,
    Signed,
    Sum,
    walk,
)
from tidings.model.values import INT_MIN

A, B, C = map(Identifier, "abc")
PLUS_1, MINUS_A = (Operator.ADD, Literal(1)), (Operator.SUB, A)


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("", Literal(True)),
        ("a OR b AND NOT c", Or((A, And((B, Not(C)))))),
        ("(a OR (b)) OR c", Or((A, B, C))),
        ("a + 1 - (b - a) = c", Compare(Op.EQ, Sum(A, (PLUS_1, (Operator.SUB, Sum(B, (MINUS_A,))))), C)),
        ("(a + 1) - a = c", Compare(Op.EQ, Sum(A, (PLUS_1, MINUS_A)), C)),
        ("NOT a = 1", Not(Compare(Op.EQ, A, Literal(1)))),
        ("a NOT IN (1, -2)", Not(In(A, (Literal(1), Literal(-2))))),
        ("a NOT BETWEEN b AND c AND a", And((Not(Between(A, B, C)), A))),
        ("a LIKE 'x!%' ESCAPE '!'", Like(A, Pattern.parse("x\\%"))),
        ("-a * b < - 5", Compare(Op.LT, Product(Signed(Operator.SUB, A), ((Operator.MUL, B),)), Literal(-5))),
        ("a = -9223372036854775808", Compare(Op.EQ, A, Literal(INT_MIN))),
        ("a = --9223372036854775808", Compare(Op.EQ, A, Literal(2.0**63))),
    ],
)
def test_trees(text: str, tree: Expression) -> None:
    assert parse(text) == tree


SYNTAX = [
    ("a =", 3, "expected a value, found the end"),
    ("a = = b", 4, "expected a value, found '='"),
    ("(a", 2, "expected ')', found the end"),
    ("a)", 1, "expected an operator, found ')'"),
    ("a b", 2, "expected an operator, found an identifier"),
    ("a AND", 5, "expected a value, found the end"),
    ("a = NULL", 4, "expected a value, found NULL"),
    ("a IS TRUE", 5, "expected NULL, found TRUE"),
    ("a IN ()", 6, "expected a literal, found ')'"),
    ("a IN ('x',)", 10, "expected a literal, found ')'"),
    ("a IN (b)", 6, "expected a literal, found an identifier"),
    ("a IN (-b)", 6, "expected a literal"),
    ("a IN 'x'", 5, "expected '(', found a string"),
    ("a BETWEEN 1", 11, "expected AND, found the end"),
    ("a NOT = 1", 6, "expected IN, LIKE or BETWEEN, found '='"),
    ("a NOT", 5, "expected IN, LIKE or BETWEEN, found the end"),
    ("a LIKE", 6, "expected a string, found the end"),
    ("a LIKE 'x' ESCAPE", 17, "expected a string, found the end"),
    ("a = b = c", 6, "comparisons do not chain; use parentheses"),
    ("a = 1 IS NULL", 6, "comparisons do not chain; use parentheses"),
    ("a = NOT b", 4, "NOT needs parentheses around it here"),
    ("a == 1", 3, "expected a value, found '='"),
    ("a ! 1", 2, "'!' cannot stand here"),
    ('a = "x"', 4, "strings are in single quotes: 'text', not \"text\""),
    ("a. = 1", 1, "'.' cannot stand here"),
    ("a..b = 1", 1, "'.' cannot stand here"),
    ("a.5 = 1", 1, "expected an operator, found a number"),
    ("EXISTS(1)", 7, "expected an identifier, found a number"),
    ("EXISTS(a", 8, "expected ')', found the end"),
    ("found(a)", 5, "expected an operator, found '('"),
    ("a IN (1", 7, "expected ')', found the end"),
    ("a IS", 4, "expected NULL, found the end"),
    ("a %", 3, "expected a value, found the end"),
]

TYPES = [
    ("5", 0, "a selector needs a condition, not a value"),
    ("'abc'", 0, "a selector needs a condition, not a value"),
    ("a + 1", 0, "a selector needs a condition, not a value"),
    ("5 AND x", 0, "AND needs a condition, not a value"),
    ("x AND 5", 6, "AND needs a condition, not a value"),
    ("x OR 'a'", 5, "OR needs a condition, not a value"),
    ("NOT 5", 4, "NOT needs a condition, not a value"),
    ("NOT (a + 1)", 5, "NOT needs a condition, not a value"),
    ("x + 'a' = 1", 4, "'+' needs a number"),
    ("TRUE * 2 = 1", 0, "'*' needs a number"),
    ("(a > 1) + 1 = 2", 1, "'+' needs a number"),
    ("-TRUE", 1, "the sign '-' needs a number"),
    ("a = -'x'", 5, "the sign '-' needs a number"),
    ("TRUE > FALSE", 0, "'>' needs numbers or strings: booleans have no order"),
    ("a >= TRUE", 5, "'>=' needs numbers or strings: booleans have no order"),
    ("a BETWEEN TRUE AND 5", 10, "BETWEEN needs numbers or strings: booleans have no order"),
    ("x LIKE 5", 7, "LIKE needs a string literal"),
    ("x LIKE y", 7, "LIKE needs a string literal"),
    ("x LIKE 'a' ESCAPE 5", 18, "ESCAPE needs a string literal"),
    ("TRUE = 1", 7, "a boolean is only compared with booleans"),
    ("1 <> FALSE", 5, "a boolean is only compared with booleans"),
    ("a + 1 = TRUE", 8, "a boolean is only compared with booleans"),
    ("(a > 1) = 'x'", 10, "a boolean is only compared with booleans"),
    ("a % 'x' = 1", 4, "'%' needs a number"),
]

LITERALS = [
    ("a = 9223372036854775808", 4, "9223372036854775808 does not fit in 64 bits"),
    ("a = -(9223372036854775808)", 6, "9223372036854775808 does not fit in 64 bits"),
    ("a IN (9223372036854775808)", 6, "9223372036854775808 does not fit in 64 bits"),
    ("a = 08", 4, "08 is not an octal number"),
    ("a = 1e999", 4, "1e999 is too large for a float"),
    ("a LIKE 'x!' ESCAPE '!'", 7, "the pattern ends with its escape character"),
    ("a LIKE 'x' ESCAPE '!!'", 18, "ESCAPE needs exactly one character"),
    ("a LIKE 'x' ESCAPE ''", 18, "ESCAPE needs exactly one character"),
]


@pytest.mark.parametrize(
    ("code", "text", "position", "reason"),
    [
        (f"E_SELECTOR_{kind}", *row)
        for kind, table in {"SYNTAX": SYNTAX, "TYPE": TYPES, "LITERAL": LITERALS}.items()
        for row in table
    ],
)
def test_errors_say_what_and_where(code: str, text: str, position: int, reason: str) -> None:
    with pytest.raises(SelectorError) as caught:
        parse(text)
    assert (caught.value.code, caught.value.position, caught.value.reason) == (code, position, reason)


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("(" * (DEPTH_MAX + 1), DEPTH_MAX),
        ("NOT " * (TOKENS_MAX - 1), 4 * DEPTH_MAX),
        ("-" * TOKENS_MAX, DEPTH_MAX),
        ("a IN (" + "1," * CHOICES_MAX + "1)", 2),
        ("a LIKE '" + "x" * (PATTERN_MAX + 1) + "'", 7),
    ],
)
def test_limits(text: str, position: int) -> None:
    with pytest.raises(SelectorError) as caught:
        parse(text)
    assert (caught.value.code, caught.value.position) == ("E_SELECTOR_LIMIT", position)


def test_just_within_the_limits() -> None:
    assert parse("(" * DEPTH_MAX + "a" + ")" * DEPTH_MAX) == A
    assert len(list(walk(parse("NOT " * DEPTH_MAX + "a")))) == DEPTH_MAX + 1
    assert len(list(walk(parse("a IN (1" + ",1" * (CHOICES_MAX - 1) + ")")))) == 2


@pytest.mark.parametrize("operator", [" AND a", " OR a", " + 1 = 1 OR a"])
def test_chains_are_flat(operator: str) -> None:
    tree = parse("a" + operator * 1000)
    assert isinstance(tree, And | Or)
    assert len(tree.terms) == 1001


def test_positions_are_those_of_the_first_character() -> None:
    tree = parse("x = 1 AND (yy + 2) > -zz")
    assert [node.position for node in walk(tree)] == [0, 0, 0, 4, 11, 11, 11, 16, 21, 22]


@given(st.text() | token_soup())
@example("9" * TEXT_MAX)
@example("." + "9" * (TEXT_MAX - 1))
@example("'" * TEXT_MAX)
@example("a=" * (TEXT_MAX // 2))
@example("\U00010400" * TEXT_MAX)
def test_any_text_is_read_or_refused(text: str) -> None:
    error = refusal(text)
    assert error is None or (error.position is not None and 0 <= error.position <= len(text))


def refusal(text: str) -> SelectorError | None:
    try:
        parse(text)
    except SelectorError as error:
        return error
    return None
