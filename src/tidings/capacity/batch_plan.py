"""The planner's answers for a broker that serves batches: rates and waiting times, and the reverse.

>>> costs = BatchCosts(t_batch=25e-6, t_write=5e-6, t_rcv=4e-7, t_fltr=0.0, t_tx=6e-8)
>>> scenario = BatchScenario(costs, filters=200, receivers=BatchReceivers(200, 0.05))
>>> row = forecast(scenario, 0.9)
>>> round(row.rate), f"{row.waiting_mean * 1e6:.0f} us", f"{row.quantiles[-1][1] * 1e6:.0f} us"
(14981, '75 us', '574 us')
>>> round(BatchServer(scenario, together=True).rate_allowed(1e-3, 0.9999) / 1000)
37
"""

from dataclasses import dataclass

from tidings.capacity.arrays import refuse
from tidings.capacity.batch_costs import BatchCosts, BatchReceivers, BatchScenario
from tidings.capacity.online_batches import BatchServer
from tidings.capacity.sizing import PROBABILITIES, SPREADS, UTILISATIONS, SizingQuestion


@dataclass(frozen=True, slots=True)
class BatchForecast:
    """At one utilisation. Times in seconds."""

    utilisation: float
    rate: float
    sent: float
    batch_mean: float  # messages
    waiting_mean: float
    quantiles: tuple[tuple[float, float], ...]  # (probability, waiting time not exceeded with it)


@dataclass(frozen=True, slots=True)
class BatchAnswer:
    at: tuple[BatchForecast, ...]
    rate_allowed: float  # for the waiting time asked about
    saturated: float
    enough: bool | None  # for the rate asked about; None: none was


def plan_batches(question: SizingQuestion, costs: BatchCosts) -> BatchAnswer:
    """The same question, of a broker whose messages come over few connections.

    Which subscribers a batch reaches is reckoned for subscribers that match independently of each other, or for the
    same ones every time. Of measured grades only the mean counts; a spread that is neither is refused.
    """
    n, p = question.subscribers, question.match
    if question.grades is None and question.spread == "all-or-none":
        others = ", ".join(spread for spread in SPREADS if spread != "all-or-none")
        raise refuse(f"the model of batches does not support the spread all-or-none, only {others}", "E_PLAN_SPREAD")
    always = question.grades is None and question.spread == "fixed"
    receivers = BatchReceivers(0.0, 0.0, always=n * p) if always else BatchReceivers(n, p)
    scenario = BatchScenario(costs, n * question.filters_each, receivers)
    allowed = BatchServer(scenario, together=True).rate_allowed(question.waiting_max_s, question.probability)
    return BatchAnswer(
        tuple(forecast(scenario, busy) for busy in UTILISATIONS),
        allowed,
        scenario.capacity,
        None if question.rate is None else question.rate <= allowed,
    )


def forecast(scenario: BatchScenario, utilisation: float) -> BatchForecast:
    rate = scenario.rate_at(utilisation)
    queue = scenario.queue(rate)
    return BatchForecast(
        utilisation,
        rate,
        rate * scenario.receivers.mean,
        queue.batch_mean,
        queue.waiting_mean,
        tuple((p, queue.quantile(p)) for p in PROBABILITIES),
    )
