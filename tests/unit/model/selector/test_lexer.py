import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.errors import SelectorError
from tidings.model.constraint import NAME_BYTES_MAX
from tidings.model.selector.lexer import (
    KEYWORDS,
    TEXT_MAX,
    TOKENS_MAX,
    Symbol,
    describe,
    tokenize,
)
from tidings.model.values import Value


def symbols(text: str) -> list[Symbol]:
    return [token.symbol for token in tokenize(text)][:-1]


def only_value(text: str) -> Value | None:
    token, end = tokenize(text)
    assert end.symbol is Symbol.END
    return token.value


def test_positions_count_characters() -> None:
    assert [token.position for token in tokenize("é = 'x' ")] == [0, 2, 4, 8]


@pytest.mark.parametrize("keyword", KEYWORDS)
def test_keywords_in_any_case(keyword: str) -> None:
    assert symbols(f"{keyword} {keyword.lower()} {keyword.title()}") == [KEYWORDS[keyword]] * 3


@pytest.mark.parametrize("name", ["ıs", "lıke", "ſ", "IN_", "nots", "$", "_1", "é", "e\u0301", "€uro", "x‿y"])
def test_identifiers(name: str) -> None:
    assert symbols(name) == [Symbol.IDENTIFIER]


@pytest.mark.parametrize(
    ("text", "value"),
    [("0x10", 16), ("010", 8), ("10", 10), ("0", 0), ("9223372036854775808", 2**63), ("0" * 500 + "7", 7)],
)
def test_exact_numbers(text: str, value: int) -> None:
    found = only_value(text)
    assert found == value
    assert type(found) is int


@pytest.mark.parametrize(
    ("text", "value"), [("1.", 1.0), (".5", 0.5), ("1e3", 1000.0), ("1.5E-1f", 0.15), ("09.5", 9.5), ("5d", 5.0)]
)
def test_approximate_numbers(text: str, value: float) -> None:
    found = only_value(text)
    assert found == value
    assert type(found) is float


@pytest.mark.parametrize(
    "text",
    ["08", "0x", "0xg", "1e", "1e999", "5a", "9223372036854775809", "0x8000000000000001", "5_0", "1.5L", "1ll"],
)
def test_bad_numbers_are_refused_where_they_begin(text: str) -> None:
    with pytest.raises(SelectorError) as caught:
        tokenize(f"a = {text}")
    assert (caught.value.code, caught.value.position) == ("E_SELECTOR_LITERAL", 4)


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("a = 'x", 4),
        ("a = 'x''", 4),
        ("a ? b", 2),
        ("a\u00a0= 1", 1),
        ("é\ud800", 1),
        ("a = \x00", 4),
        ("٣", 0),
        (".", 0),
    ],
)
def test_what_no_token_begins_with(text: str, position: int) -> None:
    with pytest.raises(SelectorError) as caught:
        tokenize(text)
    assert (caught.value.code, caught.value.position) == ("E_SELECTOR_SYNTAX", position)


def test_a_string_must_be_text() -> None:
    with pytest.raises(SelectorError) as caught:
        tokenize("a = '\ud800'")
    assert (caught.value.code, caught.value.position) == ("E_SELECTOR_LITERAL", 4)


@pytest.mark.parametrize(
    ("text", "position"),
    [
        (" " * TEXT_MAX + "a", TEXT_MAX),
        ("(" * (TOKENS_MAX + 1), TOKENS_MAX),
        ("x " + "a" * (NAME_BYTES_MAX + 1), 2),
        ("x " + "é" * (NAME_BYTES_MAX // 2 + 1), 2),
    ],
)
def test_limits(text: str, position: int) -> None:
    with pytest.raises(SelectorError) as caught:
        tokenize(text)
    assert (caught.value.code, caught.value.position) == ("E_SELECTOR_LIMIT", position)


def test_just_within_the_limits() -> None:
    assert len(tokenize("(" * TOKENS_MAX)) == TOKENS_MAX + 1
    assert symbols("a" * NAME_BYTES_MAX) == symbols("é" * (NAME_BYTES_MAX // 2)) == [Symbol.IDENTIFIER]
    assert symbols(" " * TEXT_MAX) == []


def test_every_symbol_has_a_name_for_messages() -> None:
    assert len({describe(symbol) for symbol in Symbol}) == len(Symbol)


@given(st.text())
def test_strings_survive_quoting(text: str) -> None:
    quoted = "'" + text.replace("'", "''") + "'"
    assert only_value(quoted) == text


@given(st.integers(0, 2**63 - 1))
def test_the_three_bases_agree(number: int) -> None:
    assert only_value(str(number)) == only_value(f"{number:#x}") == only_value(f"0{number:o}L") == number


@given(st.floats(min_value=0, allow_infinity=False))
def test_floats_are_read_to_the_last_bit(number: float) -> None:
    assert only_value(repr(number)) == number
