from hypothesis import given
from hypothesis import strategies as st

from tidings.routing.bdrp.hierarchy import aggregate

SETS = st.lists(st.frozensets(st.integers(0, 12), max_size=4), max_size=20)


@given(SETS, st.integers(1, 8), st.frozensets(st.integers(0, 12)))
def test_an_aggregate_misses_nothing_and_is_small(
    sets: list[frozenset[int]], rows_max: int, carried: frozenset[int]
) -> None:
    found = aggregate(sets, rows_max)
    assert len(found) <= rows_max
    if any(one <= carried for one in sets):
        assert any(one <= carried for one in found)


@given(SETS)
def test_what_is_small_enough_stays_exact(sets: list[frozenset[int]]) -> None:
    found = aggregate(sets, 100)
    assert all(any(small <= one for small in found) for one in sets)
    assert found <= set(sets)
