"""The index gives what looking at everything gives, and looks at little."""

from hypothesis import given
from hypothesis import strategies as st

from tidings.tracking.query.time_index import TimeIndex

spans = st.none() | st.tuples(st.integers(0, 60), st.integers(0, 60)).map(lambda ends: (min(ends), max(ends)))
items = st.lists(st.tuples(spans, st.lists(st.integers(0, 60), max_size=3)), max_size=25)


@given(items, st.integers(-2, 62), st.integers(0, 20), st.sets(st.integers(0, 24)))
def test_as_looking_at_everything(
    added: list[tuple[tuple[int, int] | None, list[int]]], first: int, more: int, removed: set[int]
) -> None:
    index = TimeIndex[int]()
    numbers = [index.add(number, span, set(singles)) for number, (span, singles) in enumerate(added)]
    for number in removed & set(numbers):
        index.remove(number)
        added[number] = (None, [])
    assert len(index) == len(added) - len(removed & set(numbers))
    assert index.at(first) == [
        number
        for number, (span, singles) in enumerate(added)
        if (span is not None and span[0] <= first <= span[1]) or first in singles
    ]
    if more:
        last = first + more
        assert index.between(first, last) == [
            number
            for number, (span, _) in enumerate(added)
            if span is not None and span[0] <= last and span[1] >= first
        ]


@given(items, st.integers(0, 25), st.integers(-2, 62))
def test_without_the_first_it_is_what_the_rest_alone_would_be(
    added: list[tuple[tuple[int, int] | None, list[int]]], count: int, moment: int
) -> None:
    index, rest = TimeIndex[int](), TimeIndex[int]()
    for number, (span, singles) in enumerate(added):
        index.add(number, span, set(singles))
        if number >= count:
            rest.add(number, span, set(singles))
    ends = [span[1] for span, _ in added[:count] if span is not None]
    assert index.drop_first(count) == max(ends, default=0)
    assert (len(index), index.at(moment)) == (len(rest), rest.at(moment))
    assert index.between(moment, moment + 9) == rest.between(moment, moment + 9)
    index.add(99, (moment, moment), {61})
    assert index.at(moment)[-1] == 99


def test_a_long_range_does_not_make_others_be_looked_at() -> None:
    looked: list[int] = []

    class Spy(int):
        def __ge__(self, other: object) -> bool:
            looked.append(int(self))
            return int.__ge__(self, other)  # type: ignore[operator]

    index = TimeIndex[int]()
    index.add(-1, (0, Spy(10**9)))
    for number in range(5000):
        index.add(number, (number * 100, Spy(number * 100 + 120)))
    assert index.at(250_010) == [-1, 2499, 2500]
    assert len(looked) <= 5
