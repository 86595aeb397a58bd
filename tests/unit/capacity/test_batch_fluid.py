"""Large batches, approximated: against the exact chain where both can be had, and against a simulation elsewhere."""

import math

import numpy as np
import pytest

from tidings.capacity.arrays import Array
from tidings.capacity.batch_costs import BatchCosts, BatchReceivers, BatchScenario
from tidings.capacity.batch_fluid import approximate, queue_of
from tidings.capacity.batching import OfSize, analyse, capacity, no_variance
from tidings.capacity.online_batches import SIZES_MAX, BatchServer
from tidings.errors import UsageError

PROBABILITIES = (0.5, 0.99, 0.9999, 0.99999)
# As once measured: writing to all 500 costs 2 ms, so that at rates far from the limit
# hundreds of messages come during a batch.
COSTS = BatchCosts(8.6e-6, 4.34e-6, 9.9e-8, 5.2e-9, 3.65e-8, t_cold=1.13e-5, t_wake=3.74e-5)
SCENARIO = BatchScenario(COSTS, 500, BatchReceivers(500, 0.01))
SERVER = BatchServer(SCENARIO, together=True)


def line(fixed: float, each: float) -> OfSize:
    return lambda k: fixed + each * k


def simulated(rng: np.random.Generator, scenario: BatchScenario, rate: float, seconds: float) -> Array:
    """How long messages wait, one batch after the other, with receivers drawn for each batch."""
    costs, people = scenario.costs, scenario.receivers
    arrivals = np.cumsum(rng.exponential(1 / rate, int(rate * seconds)))
    matching = costs.t_rcv + math.log2(1 + scenario.filters) * costs.t_fltr
    now, first, waits = 0.0, 0, []
    while first < len(arrivals):
        slept = arrivals[first] > now
        now = float(arrivals[first]) + costs.t_wake if slept else now
        end = int(np.searchsorted(arrivals, now, side="right"))
        waits.append(now - arrivals[first:end])
        k, n, p = end - first, int(people.subscribers), people.match_probability
        reached, copies = rng.binomial(n, 1 - (1 - p) ** k), rng.binomial(n * k, p)
        now += costs.t_batch + reached * costs.t_write + k * matching + copies * costs.t_tx + slept * costs.t_cold
        first = end
    return np.concatenate(waits)[len(arrivals) // 5 :]


@pytest.mark.parametrize(
    ("rate", "mean", "variance"),
    [
        (100_000.0, SCENARIO.mean, SCENARIO.variance),
        (300_000.0, SCENARIO.mean, SCENARIO.variance),
        (80.0, line(1.0, 0.01), no_variance),
        (9.5, line(1.0, 0.1), no_variance),
        (9.0, line(1.0, 0.1), lambda k: 1.0 + 0.04 * k),
        (0.98, line(1.0, 1.0), no_variance),
        (0.95, line(0.1, 1.0), no_variance),  # hardly anything comes in the fixed part of a batch
        (0.95, line(0.1, 1.0), lambda k: 4.0 * k),
    ],
)
def test_waiting_times_are_those_of_the_chain(rate: float, mean: OfSize, variance: OfSize) -> None:
    fluid, chain = approximate(rate, mean, variance), analyse(rate, mean, variance)
    assert fluid.waiting_mean == pytest.approx(chain.waiting_mean, rel=0.03)
    for p in PROBABILITIES:
        assert fluid.quantile(p) == pytest.approx(chain.quantile(p), rel=0.08), p
    if chain.busy > 0.999:
        assert fluid.batch_mean == pytest.approx(chain.batch_mean, rel=0.01)


@pytest.mark.parametrize("rate", [1e6, 2.5e6])
def test_waiting_times_are_those_of_the_simulated_queue(rate: float) -> None:
    waits, queue = simulated(np.random.default_rng(4), SCENARIO, rate, 0.6), SCENARIO.queue(rate)
    assert queue.batch_mean > 2000
    assert queue.waiting_mean == pytest.approx(float(waits.mean()), rel=0.05)
    for p in (0.5, 0.99, 0.999):
        assert queue.quantile(p) == pytest.approx(float(np.quantile(waits, p)), rel=0.1)


def test_few_messages_are_left_to_the_chain() -> None:
    for rate in (100.0, 20_000.0, 50_000.0):
        queue, chain = SCENARIO.queue(rate), analyse(rate, SCENARIO.mean, SCENARIO.variance, wake=3.74e-5, cold=1.13e-5)
        assert (queue.waiting_mean, queue.batch_mean) == (chain.waiting_mean, chain.batch_mean)


@pytest.mark.parametrize("mean", [SCENARIO.mean, line(1.0, 0.01), line(1.0, 1.0), line(0.1, 1.0)])
def test_waiting_times_rise_with_the_rate_across_both_ways(mean: OfSize) -> None:
    rates = capacity(mean) * np.array([0.01, 0.1, 0.3, 0.6, 0.8, 0.9, 0.95, 0.98, 0.99, 0.999, 0.999999, 1 - 1e-9])
    quantiles = [queue_of(float(rate), mean, sizes_max=SIZES_MAX).quantile(0.9999) for rate in rates]
    assert quantiles == sorted(quantiles)
    with pytest.raises(UsageError, match="E_LAB_OVERLOAD"):
        queue_of(1.01 * capacity(mean), mean)


def test_the_allowed_rate_rises_with_the_bound_until_the_server_is_saturated() -> None:
    """All bounds once gave the rate at which 256 messages wait, a 36th of what the broker carries."""
    bounds = (0.002, 0.0023, 0.005, 0.02, 0.1, 1.0, 10.0)
    allowed = [SERVER.rate_allowed(bound, 0.9999) for bound in bounds]
    assert allowed == sorted(allowed)
    assert len(set(allowed[:5])) == 5
    assert allowed[-1] == pytest.approx(SCENARIO.capacity, rel=0.02)
    for bound, rate in zip(bounds, allowed, strict=True):
        assert SERVER.outlook(rate, (0.9999,)).waiting_quantiles[0][1] <= bound
        if 1.02 * rate < SCENARIO.capacity:
            assert SERVER.outlook(1.02 * rate, (0.9999,)).waiting_quantiles[0][1] > bound


def test_writes_alone_make_large_batches_too() -> None:
    """Least squares may find no t_batch at all. Then a batch of none costs nothing, and is not the one meant."""
    for match in (0.01, 1.0):
        scenario = BatchScenario(BatchCosts(0.0, 4.34e-6, 2e-7, 0.0, 0.0), 500, BatchReceivers(500, match))
        assert scenario.queue(1e6, 256).batch_mean == pytest.approx(1e6 * 500 * 4.34e-6 / 0.8, rel=0.01)
        allowed = BatchServer(scenario, together=True).rate_allowed(1.0, 0.9999)
        assert allowed == pytest.approx(scenario.capacity, rel=0.02)


def test_costs_of_nothing_are_refused() -> None:
    nothing = BatchScenario(BatchCosts(0.0, 1e-6, 0.0, 0.0, 0.0), 5, BatchReceivers(5, 0.0))
    with pytest.raises(UsageError, match="the time a message takes"):
        BatchServer(nothing, together=True).rate_allowed(1.0, 0.9999)


def test_too_many_to_analyse_is_no_overload() -> None:
    with pytest.raises(UsageError, match="E_LAB_SIZES"):
        analyse(150_000.0, SCENARIO.mean, SCENARIO.variance, sizes_max=SIZES_MAX)
    assert SERVER.outlook(150_000.0, (0.9999,)).waiting_quantiles[0][1] == pytest.approx(
        analyse(150_000.0, SCENARIO.mean, SCENARIO.variance).quantile(0.9999), rel=0.02
    )


def test_without_a_fixed_part_what_the_chain_cannot_hold_is_refused() -> None:
    mean = line(0.0, 1.0)
    assert queue_of(0.9, mean).busy == pytest.approx(0.9)
    with pytest.raises(UsageError, match="E_LAB_SIZES"):
        queue_of(1 - 1e-6, mean)
