"""Rows that come and go, and those among them that none makes needless."""

from collections import Counter
from random import Random

from hardening.contracts.codec import random_predicate
from hypothesis import given
from hypothesis import strategies as st

from tidings.kernel.row_antichain import RowAntichain
from tidings.model.codec import encode_predicate
from tidings.model.constraint import Constraint, Op
from tidings.model.predicate import Predicate

row = st.binary(max_size=4).map(lambda text: bytes(sorted({byte % 6 for byte in text})))


@given(st.lists(st.tuples(st.booleans(), row), max_size=60), st.integers(1, 20))
def test_those_that_contain_no_other(steps: list[tuple[bool, bytes]], taken_every: int) -> None:
    rows, there = RowAntichain(), Counter[bytes]()
    told: set[bytes] = set()
    for number, (comes, one) in enumerate(steps):
        if comes:
            rows.add(one, list(one))
            there[one] += 1
        elif there[one]:
            assert rows.remove(one)
            there[one] -= 1
        else:
            assert not rows.remove(one)
        present = [set(each) for each, count in there.items() if count]
        minimal = [each for each in present if not any(other < each for other in present)]
        assert sorted(map(sorted, rows.rows())) == sorted(map(sorted, minimal))
        assert len(rows) == len(minimal)
        if number % taken_every == 0:
            come, gone = rows.take_changes()
            assert not come & told
            assert gone <= told
            told = (told - gone) | come
            assert told == set(rows.rows())


def members(predicate: Predicate, row: bytes) -> set[object]:
    """Constraints that whatever matches fulfils; if these are not all that it asks for, its row as well."""
    if not predicate.conjunctions:
        return {row}
    first, *others = predicate.conjunctions
    common = set(first).intersection(*others)
    return common | ({row} if others or predicate.residual is not None else set())


@given(seed=st.integers(0, 2**32))
def test_constraints_are_the_elements_of_filters(seed: int) -> None:
    rng, rows, known = Random(seed), RowAntichain(), dict[bytes, set[object]]()
    pool = [Constraint(name, Op.GT, number) for name in "ab" for number in range(2)]
    for _ in range(12):
        some = [rng.sample(pool, rng.randrange(4)) for _ in range(rng.choice((1, 1, 1, 2)))]
        predicate = Predicate(some) if rng.random() < 0.8 else random_predicate(rng)
        encoded = encode_predicate(predicate)
        rows.add_filter(encoded, encoded)
        known[encoded] = members(predicate, encoded)
    for _ in range(6):
        gone = rng.choice(list(known))
        while rows.remove(gone):
            pass
        del known[gone]
        active = set(rows.rows())
        assert all(any(known[one] <= known[other] for one in active) for other in known)
        assert not any(known[one] < known[other] for one in active for other in active)
        if len(known) == 1:
            break


def test_nothing_is_left_of_what_is_gone() -> None:
    rows = RowAntichain()
    steps = [b"abc", b"ab", b"b", b"bcd", b"", b"ab", b"cd"]
    for one in steps:
        rows.add(one, list(one))
    assert rows.rows() == [b""]
    assert rows.sizes() == (6, 4)
    for one in steps:
        assert rows.remove(one)
    assert (rows.rows(), rows.sizes(), rows.take_changes()) == ([], (0, 0), (set(), set()))
