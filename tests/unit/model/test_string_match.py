from itertools import product

from hardening.support.strategies_model import text_constraints, texts
from hypothesis import given, settings
from hypothesis import strategies as st

from tidings.model.constraint import Constraint, Op
from tidings.model.string_match import contradictory, implies, prefix_excluded, prefix_implies, read, topic_covers
from tidings.model.value_set import contains, key_of

TEXTS = ["".join(one) for n in range(6) for one in product("ab.", repeat=n)] + ["%", "_", "\\", "a\\", "%a", "_b"]
on_x = text_constraints(st.just("x"))


@given(on_x)
@settings(max_examples=200)
def test_cuts_and_test_together_are_the_constraint(constraint: Constraint) -> None:
    cuts, test = read(constraint)
    for text in TEXTS:
        inside = contains(cuts, key_of(text))
        assert constraint.holds(text) == (inside and (test is None or test.holds(text)))
    assert contains(cuts, key_of(5)) == constraint.holds(5)


@given(on_x, on_x)
@settings(max_examples=300)
def test_implication_is_sound(a: Constraint, b: Constraint) -> None:
    left, right = read(a)[1], read(b)[1]
    if left is None or right is None:
        return
    assert implies(left, left)
    if implies(left, right):
        assert all(right.holds(text) for text in TEXTS if left.holds(text))
    if contradictory([left, right]):
        assert not any(left.holds(text) and right.holds(text) for text in TEXTS)


@given(on_x, texts)
def test_what_a_prefix_implies(constraint: Constraint, prefix: str) -> None:
    test = read(constraint)[1]
    if test is not None and prefix_implies(prefix, test):
        assert all(test.holds(prefix + text) for text in TEXTS)
    if test is not None and prefix_excluded(prefix, [test]):
        assert not any(test.holds(prefix + text) for text in TEXTS)


def test_topic_patterns() -> None:
    def levels(pattern: str) -> tuple[str, ...]:
        return tuple(pattern.split("."))

    yes = [("a.>", "a.*.c"), (">", "a"), ("*.>", "a.b.>"), ("*", "a"), ("a.*", "a.*"), ("a.*.>", "a.b.>")]
    no = [("a.*.c", "a.>"), ("a.>", "a"), ("*", "*.*"), ("a", "*"), ("*.>", ">"), ("a.*", "a.>")]
    assert all(topic_covers(levels(wide), levels(narrow)) for wide, narrow in yes)
    assert not any(topic_covers(levels(wide), levels(narrow)) for wide, narrow in no)


def test_very_long_patterns_are_not_compared() -> None:
    def test_of(text: str) -> object:
        return read(Constraint("x", Op.CONTAINS, text))[1]

    long, longer = test_of("ab" * 3000), test_of("ab" * 3001)
    assert not implies(longer, long)  # type: ignore[arg-type]
    assert implies(long, long)  # type: ignore[arg-type]
