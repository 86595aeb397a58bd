import pytest
from hardening.support.strategies import conditions, token_soup
from hypothesis import given

from tidings.errors import SelectorError
from tidings.model.selector.parser import parse
from tidings.model.selector.printer import to_text
from tidings.model.selector.syntax import Expression


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("", "TRUE"),
        ("((a))and((b or c))", "a AND (b OR c)"),
        ("(a and b) or c", "a AND b OR c"),
        ("(a or b) or (c or d)", "a OR b OR c OR d"),
        ("not(not(a))", "NOT NOT a"),
        ("not(a = 1)", "NOT a = 1"),
        ("not(a is null)", "a IS NOT NULL"),
        ("not(a between 1 and 2)", "a NOT BETWEEN 1 AND 2"),
        ("not(a and b)", "NOT (a AND b)"),
        ("(not a) = true", "(NOT a) = TRUE"),
        ("(a = b) <> (c is null)", "(a = b) <> (c IS NULL)"),
        ("(a-b)-c=a-(b-c)", "a - b - c = a - (b - c)"),
        ("(a*b)+c=a*(b+c)", "a * b + c = a * (b + c)"),
        ("-(a+b)=-a+b", "-(a + b) = -a + b"),
        ("a=- -5", "a = 5"),
        ("a - - b = 0x10", "a - -b = 16"),
        ("a=1e3", "a = 1000.0"),
        ("a='it''s'", "a = 'it''s'"),
        ("a like 'x$%%' escape '$'", "a LIKE 'x\\%%' ESCAPE '\\'"),
        ("a like 'x\\y%%'", "a LIKE 'x\\y%'"),
        ("a not in('x',1,true)", "a NOT IN ('x', 1, TRUE)"),
    ],
)
def test_canonical_text(text: str, canonical: str) -> None:
    assert to_text(parse(text)) == canonical
    assert to_text(parse(canonical)) == canonical


@given(conditions(max_leaves=15))
def test_what_is_printed_reads_as_the_same_tree(tree: Expression) -> None:
    assert parse(to_text(tree)) == tree


@given(conditions())
def test_parentheses_are_needed(tree: Expression) -> None:
    """Without any one pair of them the text means something else, or nothing."""
    text = to_text(tree)
    for opening in (index for index, character in enumerate(text) if character == "("):
        closing = _partner(text, opening)
        if closing is None:
            continue
        without = text[:opening] + text[opening + 1 : closing] + text[closing + 1 :]
        try:
            other = parse(without)
        except SelectorError:
            continue
        assert other != tree


def _partner(text: str, opening: int) -> int | None:
    """The closing parenthesis of this one; None if there is a string in the text that could deceive us."""
    if "'" in text:
        return None
    depth = 0
    for index in range(opening, len(text)):
        depth += (text[index] == "(") - (text[index] == ")")
        if depth == 0:
            return index
    return None


@given(token_soup())
def test_printing_is_idempotent(text: str) -> None:
    try:
        canonical = to_text(parse(text))
    except SelectorError:
        canonical = ""
    assert to_text(parse(canonical)) == (canonical or "TRUE")
