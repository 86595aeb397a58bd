"""The planner's answers for a broker that serves batches: rates and waiting times, and the reverse.

>>> costs = BatchCosts(t_batch=25e-6, t_write=5e-6, t_rcv=4e-7, t_fltr=0.0, t_tx=6e-8)
>>> scenario = BatchScenario(costs, filters=200, receivers=Receivers(200, 0.05))
>>> row = forecast(scenario, 0.9)
>>> round(row.rate), f"{row.waiting_mean * 1e6:.0f} us", f"{row.quantiles[-1][1] * 1e6:.0f} us"
(14981, '75 us', '574 us')
>>> round(BatchServer(scenario, together=True).rate_allowed(1e-3, 0.9999) / 1000)
37
"""

from dataclasses import dataclass

from tidings.lab.batch_costs import BatchCosts, BatchScenario, Receivers
from tidings.lab.capacity import PROBABILITIES, UTILISATIONS, Question
from tidings.lab.online_batches import BatchServer


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


def plan_batches(question: Question, costs: BatchCosts) -> BatchAnswer:
    """The same question, of a broker whose messages come over few connections."""
    n, p = question.subscribers, question.match_probability
    receivers = Receivers(0.0, 0.0, always=n * p) if question.spread == "fixed" else Receivers(n, p)
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
