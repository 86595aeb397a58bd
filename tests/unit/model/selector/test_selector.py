import pickle
from typing import Any

import pytest
from hardening.support.strategies import conditions, properties, token_soup
from hypothesis import given
from hypothesis import strategies as st

import tidings
from tidings import Selector, SelectorError, TidingsError
from tidings.errors import UsageError
from tidings.model.codec import decode_predicate, encode_predicate
from tidings.model.predicate import PROGRAM_BYTES_MAX
from tidings.model.selector import _SAFE_LENGTH, _SAFE_PARENTHESES, DEPTH_MAX, TEXT_MAX, TOKENS_MAX
from tidings.model.selector.printer import to_text
from tidings.model.selector.program import SelectorProgram, run
from tidings.model.values import Value


def test_the_public_face() -> None:
    selector = tidings.Selector("not(stock in('XYZ'))and price>2*cost")
    assert selector.text == "not(stock in('XYZ'))and price>2*cost"
    assert str(selector) == "stock NOT IN ('XYZ') AND price > 2 * cost"
    assert repr(selector) == "Selector(\"stock NOT IN ('XYZ') AND price > 2 * cost\")"
    assert selector.identifiers == {"stock", "price", "cost"}
    assert not selector.exact
    assert len(selector.conjunctions) == 1
    assert SelectorProgram(selector.program).run({"stock": "A", "price": 5, "cost": 2}) is True
    assert selector.matches({"stock": "A", "price": 5, "cost": 2}) is True


def test_equality_is_of_meaning_not_of_spelling() -> None:
    same = [Selector("a = 1 AND b"), Selector("(a=0x1)\nand((b))"), Selector("a = 1 AND b")]
    assert len(set(same)) == 1
    assert Selector("a = 1") != Selector("a = 1.0")
    assert Selector("a = 1") != Selector("A = 1")
    assert Selector("a = 1") != "a = 1"


def test_errors_belong_to_the_tree() -> None:
    with pytest.raises(SelectorError) as caught:
        Selector("price >")
    error = caught.value
    assert isinstance(error, TidingsError)
    assert (error.code, error.position, error.reason) == ("E_SELECTOR_SYNTAX", 7, "expected a value, found the end")


@pytest.mark.parametrize("text", [None, 5, b"a = 1"])
def test_only_text_is_a_selector(text: Any) -> None:
    with pytest.raises(SelectorError, match="E_SELECTOR_TEXT"):
        Selector(text)


def test_only_values_are_properties() -> None:
    with pytest.raises(UsageError, match="E_VALUE_TYPE"):
        Selector("a = 1").matches({"a": []})  # type: ignore[dict-item]


@pytest.mark.parametrize("text", ["a OR b AND (" * 32 + "c" + ")" * 32, " + ".join(["1."] * 8000) + " = a"])
def test_what_could_not_be_run_is_refused_at_once(text: str) -> None:
    with pytest.raises(SelectorError, match="E_SELECTOR_LIMIT"):
        Selector(text)


def test_what_is_not_checked_at_once_can_always_be_run() -> None:
    """The worst texts there are within the bounds below which no program is made to see whether it fits."""
    chain = "+".join(["1."] * ((_SAFE_LENGTH - 20) // 3))
    assert len(Selector(f"{chain} BETWEEN 1 AND a").program) > PROGRAM_BYTES_MAX * 7 // 8
    deep = "a OR b AND (" * _SAFE_PARENTHESES + "1 < 2 + 3 * 4" + ")" * _SAFE_PARENTHESES
    equal = "a OR b AND c = (" * _SAFE_PARENTHESES + "1 < 2 + 3 * 4" + ")" * _SAFE_PARENTHESES
    assert SelectorProgram(Selector(deep).program).run({"a": True}) is True
    assert SelectorProgram(Selector(equal).program).run({"a": True}) is True


@pytest.mark.parametrize(
    "unit", ["(", "NOT ", "-", "1", "a AND ", "a OR NOT ", "a+", "a IN (1,", "''", "'", "é", "1.", "a=1 AND "]
)
def test_long_texts_end_well(unit: str) -> None:
    text = (unit * TEXT_MAX)[: TEXT_MAX - 1] + "b"
    with pytest.raises(SelectorError):
        Selector(text)


def test_long_chains_work() -> None:
    count = TOKENS_MAX // 4 - 1
    selector = Selector(" OR ".join(f"a={number}" for number in range(count)))
    assert selector.matches({"a": count - 1}) is True
    assert selector.matches({"a": -1}) is False
    assert selector.exact
    assert Selector(str(selector)) == selector


@pytest.mark.parametrize(
    ("before", "after"),
    [("(", " = a AND b OR c)"), ("NOT (b OR NOT (", " = TRUE) AND b)"), ("-(", " + 1 * b)")],
)
def test_deep_trees_work(before: str, after: str) -> None:
    levels = DEPTH_MAX // (before.count("(") + before.count("NOT") + before.count("-"))
    selector = Selector(before * levels + "a" + after * levels + (" > 1" if "-" in before else ""))
    having: dict[str, Value | None] = {"a": True, "b": False, "c": 5}
    assert SelectorProgram(selector.program).run(having) is selector.matches(having)
    assert Selector(str(selector)) == selector
    assert selector.predicate.matches({"a": True, "b": False, "c": 5}, run) is (selector.matches(having) is True)


def test_deep_on_the_right_is_read_and_then_refused() -> None:
    with pytest.raises(SelectorError, match="selector is nested too deep to be compiled"):
        Selector("a OR b AND c = (" * DEPTH_MAX + "a" + ")" * DEPTH_MAX)


@given(conditions().map(to_text), properties())
def test_a_selector_survives_pickling(text: str, having: dict[str, Value | None]) -> None:
    selector = Selector(text)
    answer = selector.matches(having)
    copy = pickle.loads(pickle.dumps(selector))
    assert copy == selector
    assert copy.matches(having) is answer


@given(conditions().map(to_text), properties())
def test_a_predicate_matches_where_its_selector_does(text: str, having: dict[str, Value | None]) -> None:
    selector = Selector(text)
    present = {name: value for name, value in having.items() if value is not None}
    predicate = decode_predicate(encode_predicate(selector.predicate))
    assert predicate.matches(present, run) is (selector.matches(having) is True)


@given(st.text() | token_soup())
def test_any_text_is_a_selector_or_a_selector_error(text: str) -> None:
    selector = read(text)
    assert selector.matches({}) in (True, False, None)
    assert SelectorProgram(selector.program).run({}) is selector.matches({})
    assert Selector(str(selector)) == selector


def read(text: str) -> Selector:
    """The selector, or if it is refused, one that matches everything."""
    try:
        return Selector(text)
    except SelectorError:
        return Selector("")
