from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.errors import UsageError
from tidings.overlay.topology.space import Points, plane, sphere


@given(st.sampled_from([plane, sphere]), st.integers(0, 2**32))
def test_latency_is_a_metric(make: type[Points], seed: int) -> None:
    points = make(5, Random(seed))  # type: ignore[arg-type]
    for a in range(5):
        for b in range(5):
            assert 0 < points.latency_ms(a, b) <= points.latency_ms_max
            assert points.latency_ms(a, b) == points.latency_ms(b, a)
            for c in range(5):
                assert points.latency_ms(a, c) <= points.latency_ms(a, b) + points.latency_ms(b, c) + 1e-6


def test_the_farthest_points_are_the_maximum_apart() -> None:
    corners = Points(((0.0, 0.0), (1.0, 1.0)), 100.0)
    poles = Points(((0.0, 0.0, 1.0), (0.0, 0.0, -1.0), (1.0, 0.0, 0.0)), 150.0, spherical=True)
    assert corners.latency_ms(0, 1) == pytest.approx(100)
    assert [poles.latency_ms(0, 1), poles.latency_ms(0, 2)] == pytest.approx([150, 75])


def test_the_complete_graph_and_what_is_no_point() -> None:
    points = sphere(6, Random(2))
    graph = points.complete()
    assert len(list(graph.edges())) == 15
    assert graph.neighbours(4)[1].latency_ms == points.latency_ms(1, 4)
    with pytest.raises(UsageError, match="E_GRAPH_UNKNOWN"):
        points.latency_ms("here", 1)
