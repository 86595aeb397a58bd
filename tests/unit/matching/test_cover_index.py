"""The index says what a scan says, whatever is added, removed and asked."""

from random import Random

import pytest
from hardening.contracts.reference_cover_index import ReferenceCoverIndex
from hardening.support.strategies_model import conjunctions, exact_conjunctions, predicates
from hypothesis import given
from hypothesis import strategies as st

from tidings.errors import UsageError
from tidings.matching.cover_index import CoverIndex
from tidings.model.constraint import Constraint, Op
from tidings.model.predicate import Predicate

filters = st.one_of(
    st.builds(lambda one: Predicate([one]), exact_conjunctions),
    st.builds(lambda one: Predicate([one]), conjunctions),
    predicates,
)


def answers(index: CoverIndex[int] | ReferenceCoverIndex[int], asked: Predicate) -> list[list[int]]:
    found = [list(index.covering(asked)), list(index.covered_by(asked)), list(index.intersecting(asked))]
    return [sorted(one) for one in found]


@given(st.lists(filters, max_size=12), st.lists(filters, max_size=4), st.data())
def test_agrees_with_the_scan(kept: list[Predicate], asked: list[Predicate], data: st.DataObject) -> None:
    index: CoverIndex[int] = CoverIndex()
    scan: ReferenceCoverIndex[int] = ReferenceCoverIndex()
    for number, one in enumerate(kept):
        index.add(number, one)
        scan.add(number, one)
    for number in data.draw(st.lists(st.sampled_from(range(len(kept))), unique=True) if kept else st.just([])):
        index.remove(number)
        scan.remove(number)
    for one in (*asked, *kept):
        assert answers(index, one) == answers(scan, one)


def random_filter(rng: Random) -> Predicate:
    rows = []
    for _ in range(rng.choice((1, 1, 1, 1, 2, 3))):
        row = []
        for name in rng.sample("abcd", rng.randint(0, 3)):
            low = rng.randrange(30)
            kind = rng.randrange(6)
            if kind == 0:
                row.append(Constraint(name, Op.EQ, low))
            elif kind == 1:
                row.append(Constraint(name, Op.IN, (low, low + rng.randrange(5), "x")))
            elif kind == 2:
                row.append(Constraint(name, Op.PREFIX, rng.choice(("", "x", "xy", "y"))))
            elif kind == 3:
                row.append(Constraint(name, Op.SUFFIX, rng.choice(("x", "y")), rng.random() < 0.5))
            else:
                row += [Constraint(name, Op.GE, low), Constraint(name, Op.LE, low + rng.randrange(10))]
        rows.append(row)
    return Predicate(rows)


@pytest.mark.parametrize("seed", range(5))
def test_agrees_with_the_scan_when_branches_have_grown(seed: int) -> None:
    rng = Random(seed)
    index: CoverIndex[int] = CoverIndex()
    scan: ReferenceCoverIndex[int] = ReferenceCoverIndex()
    known: dict[int, Predicate] = {}
    for number in range(700):
        known[number] = random_filter(rng)
        index.add(number, known[number])
        scan.add(number, known[number])
        if number > 300 and rng.random() < 0.7:
            gone = rng.choice(list(known))
            del known[gone]
            index.remove(gone)
            scan.remove(gone)
        if number % 20 == 0:
            asked = random_filter(rng)
            assert answers(index, asked) == answers(scan, asked)
    for number in list(known):
        index.remove(number)
    assert len(index) == 0
    assert answers(index, Predicate.always()) == [[], [], []]


def test_keys_are_held_to() -> None:
    index: CoverIndex[str] = CoverIndex()
    index.add("a", Predicate.always())
    with pytest.raises(UsageError, match="E_COVER_KEY"):
        index.add("a", Predicate.never())
    with pytest.raises(UsageError, match="E_COVER_KEY"):
        index.remove("b")
    assert "a" in index
    assert index["a"] == Predicate.always()
