"""A broker that knows how much it can carry: counters once a second in, a `Snapshot` and metrics out.

The broker's driver calls `observe` with what it has counted since it started; this takes differences, feeds the
estimator (online.py) and keeps the last answer. The time a message occupies the broker is its CPU time; what the broker
costs when nothing happens is so little that it is not told apart. Of the two kinds of model, every message on its own
or batches, the one is shown that predicts the next second better.

The estimator needs SciPy, which takes 46 MB when it is loaded: it is imported when the first messages have come.
"""

from dataclasses import asdict
from typing import TYPE_CHECKING

from tidings.broker.tuning.capacity_observer import Counters, Gauge
from tidings.errors import UsageError

if TYPE_CHECKING:
    from tidings.capacity.online import Estimator, Interval, Snapshot

PROBABILITIES = (0.99, 0.9999, 0.99999)
MODEL = "log"
MEMORY_S = 300.0


class CapacityMonitor:
    def __init__(self) -> None:
        self._estimator: Estimator | None = None  # None: no message was seen yet
        self._last: tuple[float, Counters] | None = None
        self.snapshot: Snapshot | None = None  # None: no message was seen yet

    def observe(self, now_s: float, counters: Counters) -> None:
        last, self._last = self._last, (now_s, counters)
        if last is None or now_s <= last[0]:
            return
        then_s, before = last
        if self._estimator is None:
            if counters.received == before.received:
                return
            from tidings.capacity.online import Estimator

            self._estimator = Estimator(MODEL, MEMORY_S)
        self._estimator.observe(now_s, _interval(now_s - then_s, before, counters))
        try:
            self.snapshot = self._estimator.snapshot(PROBABILITIES)
        except UsageError as error:
            if error.code != "E_LAB_NOTHING_SEEN":
                raise

    def rate_allowed(self, waiting_s_max: float, probability: float) -> float | None:
        if self._estimator is None or self.snapshot is None:
            return None
        return self._estimator.rate_allowed(waiting_s_max, probability)

    def gauges(self) -> list[Gauge]:
        """Name, meaning and samples, for the broker's metrics."""
        one = self.snapshot
        if one is None:
            return []
        found: list[Gauge] = [
            ("utilisation", "Share of a core that is in use.", [({}, one.utilisation)]),
            ("service_seconds", "Time one message takes, by the model.", [({}, one.service_mean)]),
            ("replication_grade", "Receivers of a message, on average.", [({}, one.replication)]),
            (
                "capacity_messages_per_second",
                f"What would be carried at {one.utilisation_max:.0%} utilisation.",
                [({}, one.capacity)],
            ),
            _parameters("parameter_seconds", "Parameters of the processing-time model.", one.fitted.parameters),
            ("capacity_model", "The model that predicts this broker best.", [({"model": one.model}, 1.0)]),
        ]
        if one.costs is not None:
            from tidings.capacity.batch_costs import FITTED

            costs = {name: value for name, value in asdict(one.costs).items() if name in FITTED}
            found.append(_parameters("batch_parameter_seconds", "Parameters of the model of batches.", costs))
        if one.waiting_mean is not None and one.waiting_quantiles is not None:
            found.append(("waiting_mean_seconds", "Predicted mean waiting time.", [({}, one.waiting_mean)]))
            quantiles: Gauge = ("waiting_seconds", "Predicted waiting time.", [])
            quantiles[2].extend(({"quantile": f"{p:g}"}, value) for p, value in one.waiting_quantiles)
            found.append(quantiles)
        return found


def _interval(elapsed_s: float, before: Counters, after: Counters) -> "Interval":
    from tidings.capacity.online import Interval

    first, second, third = (now - then for now, then in zip(after.grade_sums, before.grade_sums, strict=True))
    return Interval(
        elapsed_s,
        after.received - before.received,
        round(first),
        after.filters,
        max(0.0, after.cpu_s - before.cpu_s),
        second,
        third,
        reads=after.reads - before.reads,
        writes=after.writes - before.writes,
        sleeps=after.sleeps - before.sleeps,
    )


def _parameters(name: str, meaning: str, values: dict[str, float]) -> Gauge:
    return name, meaning, [({"parameter": parameter}, value) for parameter, value in values.items()]
