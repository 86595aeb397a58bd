"""The batching server against closed forms, against M/GI/1, and against a simulation of the same queue."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidings.capacity.arrays import Array
from tidings.capacity.batching import OfSize, analyse, capacity, rate_at
from tidings.capacity.service import gamma_moments
from tidings.capacity.waiting import waiting_moments
from tidings.errors import UsageError


def line(fixed: float, each: float) -> OfSize:
    return lambda k: fixed + each * k


def relative(c_var: float, mean: OfSize) -> OfSize:
    return lambda k: (c_var * mean(k)) ** 2


def simulated(
    rng: np.random.Generator,
    rate: float,
    mean: OfSize,
    c_var: float,
    *,
    wake: float = 0.0,
    cold: float = 0.0,
    bound: int | None = None,
    messages: int = 60_000,
) -> tuple[Array, float]:
    """Waiting time of each message, and the share of time that the server is busy; one batch after the other."""
    arrivals = np.cumsum(rng.exponential(1 / rate, messages))
    means = mean(np.arange(1.0, messages + 1))
    waiting = np.empty(messages)
    free = busy = 0.0
    next_one = 0
    while next_one < messages:
        slept = arrivals[next_one] > free
        start = arrivals[next_one] + wake if slept else free
        end = int(np.searchsorted(arrivals, start, side="right"))
        end = min(max(end, next_one + 1), messages if bound is None else next_one + bound)
        waiting[next_one:end] = start - arrivals[next_one:end]
        seconds = means[end - next_one - 1] + (cold if slept else 0.0)
        if c_var:
            spread = c_var * means[end - next_one - 1]
            seconds = rng.gamma((seconds / spread) ** 2, spread**2 / seconds)
        busy += seconds
        free = start + seconds
        next_one = end
    return waiting, busy / free


def mean_error(values: Array) -> float:
    """Standard error of the mean of correlated values, by batch means."""
    means = [float(part.mean()) for part in np.array_split(values, 30)]
    return float(np.std(means, ddof=1)) / math.sqrt(len(means))


@given(
    load=st.floats(0.05, 6.0),  # arrivals in the fixed part of a batch
    each=st.floats(0.0, 0.1),
    c_var=st.sampled_from([0.0, 0.5, 1.0]),
    wake=st.floats(0.0, 1.0),
    cold=st.floats(0.0, 1.0),
    seed=st.integers(0, 1 << 30),
)
@settings(max_examples=15)
def test_mean_and_quantiles_are_those_of_the_simulated_queue(
    load: float, each: float, c_var: float, wake: float, cold: float, seed: int
) -> None:
    mean = line(1.0, each)
    queue = analyse(load, mean, relative(c_var, mean), wake=wake, cold=cold)
    waiting, busy = simulated(np.random.default_rng(seed), load, mean, c_var, wake=wake, cold=cold)
    assert queue.busy == pytest.approx(busy, abs=0.02)
    assert abs(waiting.mean() - queue.waiting_mean) < 6 * mean_error(waiting) + 0.01 * queue.waiting_mean
    for p in (0.5, 0.9, 0.99):
        t = queue.quantile(p)
        beyond = np.asarray(waiting > t + 1e-9, dtype=np.float64)
        assert beyond.mean() <= 1 - p + 6 * mean_error(beyond) + 0.005
        if t > 0 and abs(t - wake) > 1e-6:  # the waking time is an atom: many wait exactly so long
            assert beyond.mean() >= 1 - p - 6 * mean_error(beyond) - 0.005


@given(load=st.floats(0.2, 0.85), bound=st.integers(1, 6), c_var=st.sampled_from([0.0, 0.7]), seed=st.integers(0, 99))
@settings(max_examples=12)
def test_a_bound_on_the_batch_leaves_messages_behind(load: float, bound: int, c_var: float, seed: int) -> None:
    mean = line(1.0, 0.3)
    rate = load * capacity(mean, bound)
    queue = analyse(rate, mean, relative(c_var, mean), bound=bound)
    waiting, busy = simulated(np.random.default_rng(seed), rate, mean, c_var, bound=bound)
    assert queue.busy == pytest.approx(busy, abs=0.03)
    assert abs(waiting.mean() - queue.waiting_mean) < 6 * mean_error(waiting) + 0.01 * queue.waiting_mean


@pytest.mark.parametrize("rho", [0.1, 0.5, 0.8, 0.95])
@pytest.mark.parametrize("c_var", [0.0, 0.5, 1.0])
def test_batches_of_one_are_the_mg1_queue(rho: float, c_var: float) -> None:
    mean = line(0.7, 0.3)
    queue = analyse(rho, mean, relative(c_var, mean), bound=1)
    assert queue.busy == pytest.approx(rho)
    assert queue.waiting_mean == pytest.approx(float(waiting_moments(rho, gamma_moments(1.0, c_var))[0]), rel=1e-6)


@pytest.mark.parametrize("rho", [0.1, 0.5, 0.9])
def test_without_a_fixed_part_the_time_before_a_message_is_that_of_md1(rho: float) -> None:
    """Waiting for the batch to begin, and then for those before it in the batch: together M/D/1's waiting time."""
    queue = analyse(rho, line(0.0, 1.0))
    before = queue.per_batch(lambda k: k * (k - 1) / 2) / queue.batch_mean
    assert queue.busy == pytest.approx(rho)
    assert queue.waiting_mean + before == pytest.approx(float(waiting_moments(rho, gamma_moments(1.0, 0.0))[0]))


@pytest.mark.parametrize("rate", [0.01, 0.5, 2.0, 10.0])
def test_batches_that_cost_the_same_whatever_their_size(rate: float) -> None:
    """Then nobody waits at the end of a batch with probability e^−λ, and all follows in closed form."""
    queue = analyse(rate, line(1.0, 0.0))
    empty = math.exp(-rate)
    cycle = 1 + empty / rate
    assert queue.slept == pytest.approx(empty)
    assert queue.busy == pytest.approx(1 / cycle)
    assert queue.batch_mean == pytest.approx(rate * cycle)
    assert queue.waiting_mean == pytest.approx(0.5 / cycle)
    assert queue.quantile(0.999) == pytest.approx(1 - 0.001 * cycle)


def test_batching_carries_more_than_one_at_a_time() -> None:
    mean = line(50e-6, 1e-6)
    assert capacity(mean) == pytest.approx(1e6)
    assert capacity(mean, 1) == pytest.approx(1 / 51e-6)
    queue = analyse(500_000.0, mean)
    assert queue.waiting_mean < 100e-6
    assert queue.response_mean > queue.waiting_mean + 51e-6


def test_the_rate_for_a_utilisation_is_the_inverse() -> None:
    mean = line(1.0, 0.01)
    for busy in (0.1, 0.5, 0.9, 0.99):
        rate = rate_at(busy, lambda rate: analyse(rate, mean, cold=0.2), capacity(mean))
        assert analyse(rate, mean, cold=0.2).busy == pytest.approx(busy, rel=1e-4)


def test_what_is_too_close_to_the_limit_to_be_analysed_is_busy() -> None:
    """A broker's watcher once ended with this, and admission went by what it had said last."""
    mean = line(0.1, 1.0)
    rate = rate_at(0.999, lambda rate: analyse(rate, mean, sizes_max=64), capacity(mean))
    assert 0 < rate < capacity(mean)
    with pytest.raises(UsageError, match="too many for the analysis"):
        analyse(rate * 1.01, mean, sizes_max=64)


def test_overload_and_what_is_not_analysed_are_refused() -> None:
    mean = line(1.0, 0.5)
    for rate in (2.0, 5.0):
        with pytest.raises(UsageError, match="the server cannot carry"):
            analyse(rate, mean)
    with pytest.raises(UsageError, match="the server cannot carry"):
        analyse(0.7, mean, bound=1)
    with pytest.raises(UsageError, match="cannot be combined"):
        analyse(0.1, mean, wake=1.0, bound=2)
    with pytest.raises(UsageError, match="a bound of the batch size that is not reached"):
        analyse(0.5, mean, bound=1).quantile(0.99)


def test_batches_that_cost_the_same_whatever_is_in_them_have_a_rate_too() -> None:
    """Least squares give such costs to a broker that was seen for a second only."""
    rate = rate_at(0.9, lambda rate: analyse(rate, lambda k: 0.001 + 0 * k), capacity(lambda k: 0.001 + 0 * k))
    # It rests, for 1/rate, when nothing came in the millisecond of a batch: the share is exp(-x) / (x + exp(-x)).
    x = rate * 0.001
    assert x / (x + np.exp(-x)) == pytest.approx(0.9, rel=1e-4)
