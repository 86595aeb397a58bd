"""The kernel's translation of plain selectors gives the bytes that the syntax tree leads to, or no answer."""

import pytest
from hardening.support.strategies import conditions, token_soup
from hypothesis import given
from hypothesis import strategies as st

from tidings.errors import SelectorError
from tidings.kernel.plain_selector import plain_predicate
from tidings.model.codec import decode_predicate, encode_constraint, encode_predicate
from tidings.model.destination import DestinationPattern
from tidings.model.selector import Selector
from tidings.model.selector.printer import to_text
from tidings.node.clients.subscription_plan import predicate_of

TOPICS = [DestinationPattern.parse(text) for text in ("a", "a.>", "a.*.c", ">")]
SPACE = st.sampled_from(["", " ", "\t", " \n"])
NAMES = st.sampled_from(
    ["a", "b", "price", "$_.x", "JMSPriority", "exists", "In.x", "NOTa", "ä", "a.é", "true", "like"]
)
NUMBERS = st.one_of(
    st.integers(-3, 3).map(str),
    st.integers(-(2**64), 2**64).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.sampled_from(["5.", ".5", "-.5", "1e3", "1E+3", "1e", "0.0", "-0.0", "00", "017", "0x1F", "3L", "2.5f", "+7"]),
    st.sampled_from(["- 4", "1e400", "5e-324", "1e-400", "9223372036854775807", "-9223372036854775808", "1.", "9e18"]),
)
STRINGS = st.text(alphabet="ab%_\\'é", max_size=5).map(lambda text: "'" + text.replace("'", "''") + "'")
LITERALS = st.one_of(NUMBERS, STRINGS, st.sampled_from(["TRUE", "false", "NULL", "b", "'"]))
SIGNS = st.sampled_from(["=", "<>", "!=", "<", "<=", ">", ">="])
ESCAPES = st.sampled_from(["", "", " ESCAPE '!'"])
NOT = st.sampled_from(["", " NOT", " not"])


@st.composite
def conditions_of_one(draw: st.DrawFn) -> str:
    name, space = draw(NAMES), draw(SPACE)
    match draw(st.integers(0, 4)):
        case 0:
            return f"{name}{space}{draw(SIGNS)}{space}{draw(LITERALS)}"
        case 1:
            choices = draw(st.lists(LITERALS, max_size=5))
            return f"{name}{draw(NOT)} IN{space}({space}{f'{space},'.join(choices)}{space})"
        case 2:
            return f"{name}{draw(NOT)} between {draw(LITERALS)} and {draw(LITERALS)}"
        case 3:
            return f"{name}{draw(NOT)} LIKE{space}{draw(STRINGS)}{draw(ESCAPES)}"
        case _:
            return f"{name} IS{draw(NOT)} NULL"


JOINED = st.lists(conditions_of_one(), min_size=1, max_size=4).flatmap(
    lambda all_tests: st.sampled_from([" AND ", " and\n", " AND ", " OR ", "AND"]).map(lambda one: one.join(all_tests))
)


def compared(text: str) -> bool:
    """Reports whether it was translated; then as the tree says."""
    answers = []
    for topic in TOPICS:
        found = plain_predicate(text, encode_constraint(topic.constraint))
        if found is not None:
            assert found == encode_predicate(predicate_of(topic, Selector(text))), text
        answers.append(found is not None)
    assert len(set(answers)) == 1
    return answers[0]


@given(JOINED)
def test_what_the_kernel_translates_is_what_the_tree_says(text: str) -> None:
    compared(text)


@given(st.one_of(conditions().map(to_text), token_soup()))
def test_any_text_is_translated_alike_or_not_at_all(text: str) -> None:
    compared(text)


@given(st.text(max_size=12))
def test_nonsense_is_left_to_the_parser(text: str) -> None:
    try:
        Selector(text)
    except SelectorError:
        assert plain_predicate(text, encode_constraint(TOPICS[0].constraint)) is None
    else:
        compared(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " \t",
        "a = 1",
        "a = 'it''s' and b<>2",
        "sym IN ('A', 'B', 1, 1.0, TRUE)",
        "lat BETWEEN 1.5 AND 2 AND lon BETWEEN -3 AND -2.25",
        "path LIKE '/a/%' AND host NOT LIKE '%x' AND a LIKE '%m%' AND b LIKE 'a_%c\\'",
        "a IS NULL AND b IS NOT NULL AND c NOT IN (1)",
        "price > 10 AND price < 20 AND stock = 'é'",
    ],
)
def test_plain_selectors_are_translated(text: str) -> None:
    assert compared(text)


@pytest.mark.parametrize(
    "text",
    [
        "a OR b",
        "NOT a = 1",
        "(a = 1)",
        "a = 1 + 2",
        "a = 1 AND a > 0",
        "a IS NULL AND a > 1",
        "a = b",
        "5 < a",
        "ä = 1",
        "a < TRUE",
        "a = 0x10",
        "a = '\ud800'",
        "a = 1 AND",
        "a LIKE 'x' ESCAPE '!'",
        "a NOT BETWEEN 1 AND 2",
        f"{'n' * 256} = 1",
        "a IN (" + ",".join(map(str, range(2000))) + ")",
        "a = 'x" + "x" * 9000 + "'",
    ],
)
def test_others_are_left_to_the_tree(text: str) -> None:
    assert plain_predicate(text, encode_constraint(TOPICS[0].constraint)) is None


def test_the_destination_is_one_of_the_constraints() -> None:
    encoded = plain_predicate("z = 1", encode_constraint(TOPICS[2].constraint))
    assert encoded is not None
    assert TOPICS[2].constraint in decode_predicate(encoded).conjunctions[0]
