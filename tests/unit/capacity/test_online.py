"""Costs, load and limits of a running broker, estimated from counters that a broker with known costs would have."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.capacity.batch_costs import BatchCosts, BatchReceivers, BatchScenario, Work
from tidings.capacity.online import MEMORY_S, WINDOW_S, CostEstimate, Estimator, OnlineSnapshot
from tidings.errors import UsageError

TRUE = BatchCosts(2e-5, 6e-6, 4e-7, 2e-8, 2e-7, t_cold=8e-6, t_byte_in=2e-10, t_byte_out=3e-10)
SMALL = BatchScenario(TRUE, 50, BatchReceivers(50, 0.04), bytes_in=100, bytes_out=100)
IDLE_S = 2e-3


def worked(scenario: BatchScenario, rate: float, noise: float = 1.0) -> Work:
    """What a broker with these costs counts in a second."""
    queue = scenario.queue(rate, 256)
    reads, copies = 1 / queue.cycle, rate * scenario.receivers.mean
    writes = reads * queue.per_batch(scenario.receivers.reached)
    work = Work(1.0, 0.0, reads, writes, rate, copies, scenario.filters, reads * queue.slept)
    work = replace(
        work, bytes_in=rate * scenario.bytes_in, bytes_out=copies * scenario.bytes_out, stored=rate * scenario.stored
    )
    return replace(work, cpu_s=(scenario.costs.cpu_s(work) + IDLE_S) * noise)


class Running:
    def __init__(self) -> None:
        self.estimator, self.second, self._rng = Estimator(), 0.0, np.random.default_rng(7)

    def load(self, scenario: BatchScenario, rate: float, seconds: int) -> OnlineSnapshot:
        for _ in range(seconds):
            self.second += 1
            work = worked(scenario, rate, 1 + 0.05 * float(self._rng.standard_normal()))
            self.estimator.observe(self.second, work)
        return self.estimator.snapshot()


def test_a_step_is_seen_within_the_window() -> None:
    running, full = Running(), SMALL.rate_at(0.9)
    assert running.load(SMALL, full / 100, 300).utilisation < 0.05
    found = running.load(SMALL, full, int(WINDOW_S) + 1)
    assert found.utilisation == pytest.approx(0.9, rel=0.1)
    assert found.rate == pytest.approx(full)
    assert running.load(SMALL, full / 100, int(WINDOW_S) + 1).utilisation < 0.05


def test_a_quiet_broker_says_nothing_of_its_capacity() -> None:
    """Ten messages a second cost mostly what the broker costs anyway."""
    running = Running()
    for _ in range(10):
        found = running.load(SMALL, 10.0, 30)
        assert not found.narrow
        assert (found.waiting_mean, found.waiting_quantiles) == (None, ())
    assert running.estimator.rate_allowed(1e-3, 0.999) is None


def test_what_was_seen_under_load_is_known_and_kept_for_a_while() -> None:
    running, full = Running(), SMALL.rate_at(0.9)
    for share in (0.05, 0.3, 0.6, 0.9) * 3:
        found = running.load(SMALL, share * full, 10)
    low, high = found.capacity.interval
    assert found.narrow
    assert low < full < high
    assert found.capacity.value == pytest.approx(full, rel=0.1)
    assert found.waiting_mean is not None
    quiet = running.load(SMALL, full / 100, 60)
    assert quiet.narrow
    assert quiet.capacity.value == pytest.approx(full, rel=0.15)
    assert running.estimator.rate_allowed(1e-3, 0.999) is not None


def test_a_flood_of_small_messages_does_not_own_the_costs() -> None:
    """Intervals count, not messages: after a minute of large ones they are known, whatever came before."""
    large = replace(SMALL, bytes_in=16_000.0, bytes_out=16_000.0)
    running = Running()
    running.load(SMALL, SMALL.rate_at(0.97), 120)
    full = large.rate_at(0.9)
    for share in (0.3, 0.6, 0.9):
        found = running.load(large, share * full, 20)
    assert found.service.value == pytest.approx(0.9 / full, rel=0.1)
    assert found.capacity.value == pytest.approx(full, rel=0.15)


@given(st.integers(0, 2**32))
def test_the_error_bar_covers_the_capacity(seed: int) -> None:
    rng = np.random.default_rng(seed)
    running, full = Running(), SMALL.rate_at(0.9)
    for _ in range(4):
        found = running.load(SMALL, float(rng.uniform(0.01, 0.98)) * full, 5)
    low, high = found.capacity.interval
    assert not found.narrow or 0.9 * low < full < 1.1 * high


def test_costs_follow_a_change() -> None:
    slower = replace(
        SMALL, costs=BatchCosts(*(3 * value for value in (2e-5, 6e-6, 4e-7, 2e-8, 2e-7, 8e-6, 0, 2e-10, 3e-10)))
    )
    running = Running()
    running.load(SMALL, SMALL.rate_at(0.8), 200)
    found = running.load(slower, slower.rate_at(0.8), 2 * int(MEMORY_S))
    assert found.service.value == pytest.approx(0.8 / slower.rate_at(0.8), rel=0.15)


def test_without_messages_there_is_nothing_to_say() -> None:
    estimator = Estimator()
    with pytest.raises(UsageError, match="no message"):
        estimator.snapshot()
    estimator.observe(1.0, Work(1.0, 0.002, 0, 0, 0, 0, 5, 0))
    with pytest.raises(UsageError, match="no message"):
        estimator.snapshot()
    for wrong in (0.5, float("nan"), float("inf")):
        with pytest.raises(UsageError):
            estimator.observe(wrong, Work(1.0, 0.0, 0, 0, 0, 0, 0, 0))


def test_silence_keeps_the_last_load_and_none_of_its_utilisation() -> None:
    running = Running()
    running.load(SMALL, SMALL.rate_at(0.5), 30)
    for _ in range(int(WINDOW_S) + 1):
        running.second += 1
        running.estimator.observe(running.second, Work(1.0, IDLE_S, 0, 0, 0, 0, 50, 0))
    found = running.estimator.snapshot()
    assert found.rate == 0
    assert found.utilisation == pytest.approx(IDLE_S)
    assert found.replication == pytest.approx(2.0)
    assert found.waiting_mean is None


@given(
    st.lists(
        st.tuples(
            st.integers(0, 10_000), st.integers(1, 100), st.integers(0, 20), st.integers(0, 500), st.floats(0, 2)
        ),
        min_size=1,
        max_size=30,
    )
)
def test_costs_are_never_negative_nor_wild(reports: list[tuple[int, int, int, int, float]]) -> None:
    estimator, messages = Estimator(), 0
    for second, (received, batch, grade, filters, busy) in enumerate(reports):
        messages += received
        reads = -(-received // batch)
        work = Work(1.0, busy, reads, min(reads * grade, received * grade), received, received * grade, filters, reads)
        estimator.observe(float(second), work)
    if messages:
        found = estimator.snapshot()
        assert all(0 <= value < 1e3 for value in (found.costs.t_batch, found.costs.t_rcv, found.costs.t_tx))
        assert found.capacity.error >= 0


def test_the_planner_can_ask_the_server_that_was_seen() -> None:
    running = Running()
    found = running.load(SMALL, SMALL.rate_at(0.7), 60)
    server = found.load.server(found.costs)
    assert server.capacity(0.9) == pytest.approx(found.capacity.value)


def test_an_estimate_is_narrow_or_it_is_not() -> None:
    assert CostEstimate(10.0, 1.2).narrow
    assert not CostEstimate(10.0, 1.3).narrow
    assert not CostEstimate(0.0, 0.0).narrow
    assert CostEstimate(1.0, 1.0).interval == (0.0, 3.0)
