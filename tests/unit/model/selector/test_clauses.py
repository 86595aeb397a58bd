"""The clause of a selector that a message fails: there is one exactly if the selector is not true."""

from hypothesis import given
from hypothesis import strategies as st

from tidings.model.selector import Selector
from tidings.model.selector.clauses import failed_clause

CLAUSES = ("a = 1", "b > 2", "(a = 2 OR b = 1)", "NOT c", "d LIKE 'x%'", "b BETWEEN 1 AND 5")
values = st.fixed_dictionaries(
    {},
    optional={
        "a": st.integers(0, 3),
        "b": st.integers(0, 6),
        "c": st.booleans(),
        "d": st.sampled_from(["x", "xy", "y"]),
    },
)


@given(st.lists(st.sampled_from(CLAUSES), min_size=1, max_size=5), values)
def test_the_clause_is_the_first_that_is_false(clauses: list[str], properties: dict[str, int | bool | str]) -> None:
    text = " AND ".join(clauses)
    failed = failed_clause(Selector(text), properties)
    assert (failed is None) == (Selector(text).matches(properties) is True)
    if failed is None:
        return
    assert Selector(failed.text).matches(properties) is failed.outcome
    outcomes = [Selector(clause).matches(properties) for clause in clauses]
    first = outcomes.index(False) if False in outcomes else outcomes.index(None)
    start = sum(len(clause) + len(" AND ") for clause in clauses[:first])
    assert start <= failed.position < start + len(clauses[first])


def test_without_a_selector_nothing_fails() -> None:
    assert failed_clause(Selector(""), {}) is None
