import pickle
from random import Random

import pytest
from hardening.support.strategies_model import attribute_maps, constraints, predicates
from hypothesis import given
from hypothesis import strategies as st

from tidings.errors import UsageError
from tidings.model.constraint import Constraint, Op
from tidings.model.predicate import Conjunction, Predicate
from tidings.model.values import Value

POSITIVE = Constraint("a", Op.GT, 0)


@given(st.lists(st.lists(constraints, max_size=3), max_size=3), st.randoms())
def test_order_and_repetition_do_not_matter(rows: list[list[Constraint]], random: Random) -> None:
    shuffled = [random.sample(row, len(row)) + row[:1] for row in rows] + rows[:1]
    random.shuffle(shuffled)
    a, b = Predicate(rows), Predicate(shuffled)
    assert a == b
    assert hash(a) == hash(b)
    assert pickle.loads(pickle.dumps(a)) == a


@given(predicates, attribute_maps, constraints)
def test_matches_is_what_it_says(predicate: Predicate, attributes: dict[str, Value], more: Constraint) -> None:
    plain = any(all(one.holds(attributes.get(one.name)) for one in row) for row in predicate.conjunctions)
    assert predicate.matches(attributes) == plain
    assert predicate.within(more).matches(attributes) == (plain and more.holds(attributes.get(more.name)))


def test_residual() -> None:
    predicate = Predicate([[POSITIVE]], b"program")
    asked: list[bytes] = []

    def unknown(program: bytes, attributes: object) -> None:
        asked.append(program)

    assert predicate.matches({"a": 1})
    assert not predicate.matches({"a": 1}, unknown)
    assert not predicate.matches({"a": 0}, unknown)
    assert predicate.matches({"a": 1}, lambda program, attributes: True)
    assert asked == [b"program"]
    assert Predicate([[POSITIVE]], b"") == Predicate.of(POSITIVE)
    assert predicate != Predicate.of(POSITIVE)
    with pytest.raises(UsageError, match="E_PREDICATE_PROGRAM"):
        Predicate([], b"x" * 65537)


def test_always_and_never() -> None:
    assert Predicate.always().matches({})
    assert not Predicate.never().matches({"a": 1})
    assert Predicate.always().within(POSITIVE) == Predicate.of(POSITIVE)
    assert Predicate.of() == Predicate.always() == Predicate([Conjunction()])


def test_the_normal_form_is_made_once() -> None:
    conjunction = Conjunction([POSITIVE])
    assert conjunction.normal is conjunction.normal
    assert Conjunction(conjunction) is conjunction
    assert conjunction == (POSITIVE,)
