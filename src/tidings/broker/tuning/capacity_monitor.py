"""A broker that knows how much it can carry: counters once a second in, gauges out.

The broker's driver calls `observe` with what it has counted since it started; this takes differences, feeds the
estimator (tidings.capacity.online, which has the time constants) and keeps the last answer. A prediction is published
only while its error bar is narrow; until then `capacity_measuring` is 1. Predicted mean waiting times are compared with
those measured at the sockets, and how far they are apart is a gauge as well.

The estimator needs SciPy, which takes 46 MB when it is loaded: it is imported when the first messages have come.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING

from tidings.broker.tuning.capacity_observer import Counters, Gauge

if TYPE_CHECKING:
    from tidings.capacity.batch_costs import Work
    from tidings.capacity.online import Estimator, OnlineSnapshot

PROBABILITIES = (0.99, 0.9999, 0.99999)
ERROR_MEMORY = 30  # comparisons of predicted with measured waiting times
COMPARED_MIN = 50  # messages measured in a second, for a comparison


class CapacityMonitor:
    def __init__(self) -> None:
        self._estimator: Estimator | None = None  # None: no message was seen yet
        self._last: tuple[float, Counters] | None = None
        self._wrong: float | None = None  # of predicted waiting times: mean of squared logarithms of their ratio
        self.snapshot: OnlineSnapshot | None = None  # None: no message was seen yet

    def observe(self, now_s: float, counters: Counters) -> None:
        last, self._last = self._last, (now_s, counters)
        if last is None or now_s <= last[0]:
            return
        then_s, before = last
        if self._estimator is None:
            if counters.received == before.received:
                return
            from tidings.capacity.online import Estimator

            self._estimator = Estimator()
        work = _work(now_s - then_s, before, counters)
        self._compare(before, counters)
        self._estimator.observe(now_s, work)
        if self.snapshot is not None or work.received:
            self.snapshot = self._estimator.snapshot(PROBABILITIES)

    def rate_allowed(self, waiting_s_max: float, probability: float) -> float | None:
        if self._estimator is None or self.snapshot is None:
            return None
        return self._estimator.rate_allowed(waiting_s_max, probability)

    def _compare(self, before: Counters, after: Counters) -> None:
        """Compare the prediction of a second ago with the measurement since."""
        messages = after.waited - before.waited
        predicted = None if self.snapshot is None else self.snapshot.waiting_mean
        if not predicted or messages < COMPARED_MIN:
            return
        measured = (after.wait_seconds - before.wait_seconds) / messages
        if measured > 0:
            square = math.log(measured / predicted) ** 2
            old = square if self._wrong is None else self._wrong
            self._wrong = old + (square - old) / ERROR_MEMORY

    def gauges(self) -> list[Gauge]:
        """Name, meaning and samples, for the broker's metrics."""
        one = self.snapshot
        if one is None:
            return []
        found: list[Gauge] = [
            ("utilisation", "Share of a core that was in use, in the last 3 s.", [({}, one.utilisation)]),
            ("replication_grade", "Receivers of a message, on average, in the last 3 s.", [({}, one.replication)]),
            ("capacity_measuring", "1 while too little was seen to predict anything.", [({}, float(not one.narrow))]),
        ]
        if one.narrow:
            found += _predicted(one)
        if self._wrong is not None:
            ratio = math.exp(math.sqrt(self._wrong))
            found.append(("waiting_error_ratio", "Predicted mean waiting times are off by this factor.", [({}, ratio)]))
        return found


def _predicted(one: "OnlineSnapshot") -> list[Gauge]:
    low, high = one.capacity.interval
    found: list[Gauge] = [
        ("service_seconds", "Processor time of one message, as the load is.", [({}, one.service.value)]),
        (
            "capacity_messages_per_second",
            "What would be carried at 90% utilisation, as messages are now.",
            [({}, one.capacity.value)],
        ),
        (
            "capacity_interval",
            "Bounds of that, with 95% confidence.",
            [({"bound": "low"}, low), ({"bound": "high"}, high)],
        ),
        ("cost_seconds", "Costs of the model of batches.", _samples("cost", asdict(one.costs))),
        ("load", "The load that is predicted for.", _samples("of", asdict(one.load))),
    ]
    if one.waiting_mean is not None:
        found.append(("waiting_mean_seconds", "Predicted mean waiting time.", [({}, one.waiting_mean)]))
        quantiles = [({"quantile": f"{p:g}"}, value) for p, value in one.waiting_quantiles]
        found.append(("waiting_seconds", "Predicted waiting time.", [*quantiles]))
    return found


def _work(elapsed_s: float, before: Counters, after: Counters) -> "Work":
    from tidings.capacity.batch_costs import Work

    return Work(
        elapsed_s,
        max(0.0, after.cpu_s - before.cpu_s),
        after.reads - before.reads,
        after.writes - before.writes,
        after.received - before.received,
        after.delivered - before.delivered,
        after.filters,
        after.sleeps - before.sleeps,
        after.received_bytes - before.received_bytes,
        after.sent_bytes - before.sent_bytes,
        after.stored - before.stored,
    )


def _samples(label: str, values: dict[str, float]) -> list[tuple[Mapping[str, str], float]]:
    return [({label: name}, float(value)) for name, value in values.items()]
