"""Costs of batches: estimated while a broker runs; and a real broker, loaded and timed."""

from dataclasses import replace

import numpy as np
import pytest

from tidings.capacity.batch_costs import BatchCosts, BatchReceivers, BatchScenario, Work, costs_of
from tidings.capacity.online_batches import BatchServer, server_seen
from tidings.errors import UsageError
from tidings.lab.paced import measure_paced
from tidings.lab.servers import TidingsServer
from tidings.lab.workloads import SETUPS

TRUE = BatchCosts(t_batch=25e-6, t_write=5e-6, t_rcv=4e-7, t_fltr=1e-7, t_tx=6e-8, t_cold=15e-6)


def worked(scenario: BatchScenario, rate: float, seconds: float = 1.0) -> Work:
    """What a broker with these costs would have counted."""
    queue = scenario.queue(rate)
    reads = seconds / queue.cycle
    writes = reads * queue.per_batch(scenario.receivers.reached)
    received, copies = rate * seconds, rate * seconds * scenario.receivers.mean
    work = Work(seconds, 1.0, reads, writes, received, copies, scenario.filters, reads * queue.slept)
    return Work(seconds, scenario.costs.cpu_s(work), *(getattr(work, name) for name in Work.__slots__[2:]))


def scenarios(costs: BatchCosts) -> list[BatchScenario]:
    loads = [(10, 1.0, 0), (50, 0.5, 1000), (100, 0.1, 20_000), (5, 0.9, 100), (200, 0.05, 0)]
    return [BatchScenario(costs, n + m, BatchReceivers(m, p)) for m, p, n in loads]


def test_cpu_time_is_the_time_in_which_batches_are_served() -> None:
    for one in scenarios(TRUE):
        for busy in (0.2, 0.5, 0.9, 0.98):
            work = worked(one, one.rate_at(busy))
            assert work.cpu_s == pytest.approx(busy * work.seconds, rel=1e-3)


@pytest.mark.parametrize(("subscribers", "probability", "busy"), [(1, 1.0, 0.75), (60, 0.3, 0.5), (300, 0.05, 0.9)])
def test_a_broker_sees_from_its_counters_what_it_is(subscribers: int, probability: float, busy: float) -> None:
    scenario = BatchScenario(TRUE, 100, BatchReceivers(subscribers, probability))
    rate = scenario.rate_at(busy)
    seen = server_seen(TRUE, worked(scenario, rate))
    assert seen.together
    outlook, queue = seen.outlook(rate, (0.9999,)), scenario.queue(rate)
    assert outlook.busy == pytest.approx(busy, rel=0.05)
    assert outlook.waiting_mean == pytest.approx(queue.waiting_mean, rel=0.02)
    assert outlook.waiting_quantiles[0][1] == pytest.approx(queue.quantile(0.9999), rel=0.02)
    assert seen.capacity(0.9) == pytest.approx(scenario.rate_at(0.9), rel=0.02)


def test_the_allowed_rate_keeps_to_the_bound_and_no_less() -> None:
    warm = replace(TRUE, t_cold=0.0)
    seen = BatchServer(BatchScenario(warm, 100, BatchReceivers(60, 0.3)), together=True)
    for bound in (2e-4, 4e-4):
        allowed = seen.rate_allowed(bound, 0.9999)
        assert seen.outlook(allowed, (0.9999,)).waiting_quantiles[0][1] <= bound
        assert seen.outlook(1.05 * allowed, (0.9999,)).waiting_quantiles[0][1] > bound
        assert seen.rate_allowed(bound, 0.9999, allowed / 2) == allowed / 2


@pytest.mark.parametrize("rate", [150_000.0, 500_000.0])
def test_a_broker_with_large_batches_sees_what_it_is_and_admits_what_it_carries(rate: float) -> None:
    scenario = BatchScenario(replace(TRUE, t_fltr=0.0), 500, BatchReceivers(500, 0.01))
    seen = server_seen(scenario.costs, worked(scenario, rate))
    assert seen.together
    assert seen.scenario.receivers.subscribers == pytest.approx(500, rel=0.02)
    waiting = scenario.queue(rate).quantile(0.9999)
    assert seen.rate_allowed(1.05 * waiting, 0.9999, 2 * rate) >= rate
    assert seen.rate_allowed(1.0, 0.9999, 1.1 * rate) == 1.1 * rate


def test_messages_over_many_connections_are_served_one_by_one() -> None:
    """Each read brings one message, however many wait: what is seen is no batching."""
    rate = 8000.0
    work = Work(1.0, 0.9, rate, rate * 5, rate, rate * 5, 5, 100.0)
    seen = server_seen(TRUE, work)
    assert not seen.together
    assert seen.capacity(0.9) == pytest.approx(0.9 / float(seen.alone.first))
    with pytest.raises(UsageError):
        seen.outlook(1.01 / float(seen.alone.first), (0.99,))
    assert seen.rate_allowed(1e-3, 0.9999) < 1 / float(seen.alone.first)


def test_a_broker_that_slept_before_every_batch_has_a_capacity_all_the_same() -> None:
    """Nothing tells t_cold from t_batch then; if all went into t_cold, a busy broker would work for nothing."""
    costs = costs_of(np.array([0.0, 0.0, 0.0, 0.0, 0.0, 5e-5, 0.0, 0.0, 0.0]))
    assert (costs.t_batch, costs.t_cold) == (5e-5, 0.0)
    assert BatchScenario(costs, 10, BatchReceivers(1, 1.0)).queue(100.0).busy == pytest.approx(0.005, rel=0.01)
    free = BatchScenario(BatchCosts(0.0, 0.0, 0.0, 0.0, 0.0), 10, BatchReceivers(1, 1.0))
    with pytest.raises(UsageError, match="the time a batch takes"):
        _ = free.capacity


def test_every_message_of_a_real_broker_is_timed() -> None:
    design = SETUPS["mix"]({"subscribers": 6, "match_percent": 50, "others": 20}, "lab.paced")
    with TidingsServer() as server:
        run = measure_paced(server, design, 400.0, 1.0, np.random.default_rng(5), warm_s=0.1)
    assert run.counts.received == pytest.approx(400, abs=120)
    assert len(run.waits_s) <= run.counts.received
    assert np.all(run.waits_s > 0)  # no message was read before it was sent
    assert run.counts.delivered == pytest.approx(run.counts.received * np.mean(design.grades), rel=0.02)
    assert 0 < run.counts.feeds <= run.counts.received
    assert run.counts.writes <= run.counts.delivered
    assert run.met_idle.any()
    assert run.wake_s <= run.waits_s.max()
