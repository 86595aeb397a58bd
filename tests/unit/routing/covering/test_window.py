from math import ceil

from hypothesis import given
from hypothesis import strategies as st

from tidings.routing.covering.messages import AdvertisementId, FilterId
from tidings.routing.covering.window import DeliveryWindow

A, B = AdvertisementId(1, 1), AdvertisementId(1, 2)
S, T = FilterId(9, 1), FilterId(9, 2)


@given(st.lists(st.integers(0, 8), min_size=1, max_size=40), st.sampled_from([0.5, 0.75, 0.9, 0.99, 1.0]))
def test_prune_hops_is_the_smallest_that_leaves_enough_below(distances: list[int], phi: float) -> None:
    window = DeliveryWindow(age_ms=1e9, size_max=1000)
    for distance in distances:
        window.record(0.0, S, A, distance, 0)
    hops = window.prune_hops(S, phi)[A]
    enough = ceil(phi * len(distances) - 1e-9)
    assert sum(one < hops for one in distances) >= enough
    assert sum(one < hops - 1 for one in distances) < enough


@given(st.lists(st.tuples(st.floats(0, 50), st.sampled_from([S, T]), st.booleans()), max_size=80))
def test_it_is_bounded_in_age_and_size(steps: list[tuple[float, FilterId, bool]]) -> None:
    window = DeliveryWindow(age_ms=100.0, size_max=7)
    now, purged = 0.0, 0
    for wait, sub, purge in steps:
        now += wait
        if purge:
            window.purge(sub)
            assert window.count_max(sub) == 0
            purged += 1
            sub = FilterId(sub.router, sub.number + 10 * purged)
        window.record(now, sub, A, 1, 1)
        assert len(window) <= 7


def test_old_samples_go_and_advertisements_are_kept_apart() -> None:
    window = DeliveryWindow(age_ms=100.0, size_max=10)
    window.record(0.0, S, A, 5, 3)
    window.record(90.0, S, B, 2, 1)
    assert window.prune_hops(S, 0.9) == {A: 6, B: 3}
    window.record(150.0, T, A, 0, 2)
    assert window.prune_hops(S, 0.9) == {B: 3}
    assert window.count_max(S) == 1
    window.purge(S)
    assert window.prune_hops(S, 0.9) == {}
    window.record(400.0, T, A, 0, 2)
    assert len(window) == 1
