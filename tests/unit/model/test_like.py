import re

import pytest
from hardening.support.strategies import patterns, texts
from hypothesis import given
from hypothesis import strategies as st

from tidings.model.like import Pattern, topic_matches

ESCAPES = st.sampled_from((None, "\\", "a", "%", "_"))


def reference(text: str, escape: str | None) -> re.Pattern[str]:
    """The pattern as a regular expression, character by character."""
    expression, index = "", 0
    while index < len(text):
        character = text[index]
        if character == escape:
            index += 1
            expression += re.escape(text[index] if index < len(text) else character)
        else:
            expression += {"%": ".*", "_": "."}.get(character, re.escape(character))
        index += 1
    return re.compile(expression, re.DOTALL)


@given(texts(8), ESCAPES, texts(8))
def test_like_against_a_regular_expression(pattern: str, escape: str | None, text: str) -> None:
    assert Pattern.parse(pattern, escape).matches(text) is bool(reference(pattern, escape).fullmatch(text))


@given(st.text("ab%_", max_size=8), st.text("ab", max_size=10))
def test_like_with_many_ways_to_match(pattern: str, text: str) -> None:
    assert Pattern.parse(pattern).matches(text) is bool(reference(pattern, "\\").fullmatch(text))


@given(texts(8), ESCAPES)
def test_both_ways_to_match_agree(text: str, escape: str | None) -> None:
    pattern = Pattern.parse("%".join((text, text)), escape)
    assert pattern._match_states(text + text) is pattern.matches(text + text)


@given(patterns())
def test_spelling(pattern: Pattern) -> None:
    assert Pattern.parse(pattern.text) == pattern
    assert Pattern.parse(pattern.spell("!"), "!") == pattern
    if pattern.plain:
        assert Pattern.parse(pattern.spell(None), None) == pattern


@pytest.mark.parametrize(
    ("text", "literals"),
    [
        ("", ("",)),
        ("abc", ("abc",)),
        ("abc%", ("abc", "")),
        ("%%", ("", "")),
        ("%%a%%%b%%", ("", "a", "b", "")),
        ("a\\%\\_\\\\%", ("a%_\\", "")),
        ("a\\", ("a\\",)),
        ("a_", None),
    ],
)
def test_runs(text: str, literals: tuple[str, ...] | None) -> None:
    assert Pattern.parse(text).literals == literals


@pytest.mark.parametrize(("pattern", "text"), [("ab%ba", "aba"), ("a%a", "a"), ("a%b%b", "ab"), ("a_%_a", "aaa")])
def test_runs_do_not_share_characters(pattern: str, text: str) -> None:
    assert not Pattern.parse(pattern).matches(text)


@pytest.mark.parametrize("pattern", ["%a" * 1000 + "b", "%_a" * 1000 + "b", "_%" * 1000 + "b"])
def test_patterns_that_make_backtracking_explode(pattern: str) -> None:
    assert not Pattern.parse(pattern).matches("a" * 5000)
    assert Pattern.parse(pattern).matches("a" * 5000 + "b")


@pytest.mark.parametrize(
    ("pattern", "topic", "matches"),
    [
        ("a.b", "a.b", True),
        ("a.b", "a.b.c", False),
        ("a.*", "a.b", True),
        ("a.*", "a", False),
        ("*.b", "a.b", True),
        ("a.*.c", "a.b.c", True),
        ("a.>", "a.b.c", True),
        ("a.>", "a", False),
        (">", "a", True),
        ("*.>", "a", False),
    ],
)
def test_topics(pattern: str, topic: str, matches: bool) -> None:
    assert topic_matches(pattern, topic) is matches
