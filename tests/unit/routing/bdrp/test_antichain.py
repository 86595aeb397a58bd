"""Rows that come and go, and those among them that none makes needless."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from tidings.routing.bdrp.antichain import Antichain

row = st.binary(max_size=4).map(lambda text: bytes(sorted({byte % 6 for byte in text})))


@given(st.lists(st.tuples(st.booleans(), row), max_size=60))
def test_those_that_contain_no_other(steps: list[tuple[bool, bytes]]) -> None:
    rows, there = Antichain(frozenset), Counter[bytes]()
    for comes, one in steps:
        if comes:
            rows.add(one)
            there[one] += 1
        elif there[one]:
            rows.remove(one)
            there[one] -= 1
        present = [set(each) for each, count in there.items() if count]
        minimal = [each for each in present if not any(other < each for other in present)]
        assert sorted(map(sorted, rows)) == sorted(map(sorted, minimal))
        assert len(rows) == len(minimal)


def test_nothing_is_left_of_what_is_gone() -> None:
    rows = Antichain(frozenset)
    empty = {name: dict(value) for name, value in vars(rows).items() if isinstance(value, dict)}
    steps = [b"abc", b"ab", b"b", b"bcd", b"", b"ab", b"cd"]
    for one in steps:
        rows.add(one)
    assert list(rows) == [b""]
    for one in steps:
        rows.remove(one)
    assert {name: dict(value) for name, value in vars(rows).items() if isinstance(value, dict)} == empty


class Counted(frozenset[object]):
    comparisons = 0

    def __le__(self, other: object) -> bool:
        Counted.comparisons += 1
        return super().__le__(other)  # type: ignore[operator]

    def __ge__(self, other: object) -> bool:
        Counted.comparisons += 1
        return super().__ge__(other)  # type: ignore[operator]


def test_one_more_is_not_compared_with_all() -> None:
    """Each of the rows has an element that all have, one that a hundred have, and one of its own."""
    rows = Antichain(lambda row: Counted((0, -1 - int(row) % 20, int(row) + 1)))
    for number in range(2000):
        rows.add(b"%d" % number)
    assert len(rows) == 2000
    Counted.comparisons = 0
    rows.add(b"2000")
    rows.remove(b"7")
    assert Counted.comparisons < 100
