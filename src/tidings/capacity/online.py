"""The parameters of a running broker, estimated from its counters, and what they say about the next minutes.

Every interval the broker reports how many messages it received and sent, how many filters were installed and how
many seconds it was busy. The model says busy = Σ received·factor·parameter, which is one equation in the parameters;
intervals under different loads make it a regression. It is kept as normal equations, a k × k matrix and a vector,
in which the past fades with a time constant (recursive least squares with exponential forgetting). The non-negative
solution is found when somebody asks. Memory does not grow with time.

What is not seen keeps its value, at first that of the stored model given as `prior` (recursive.py). An interval counts
in proportion to its messages, since the variance of a sum does.

A broker that counts its reads, writes and sleeps is also seen as one that serves batches (online_batches.py). Each
interval is predicted by both models before it is learnt; the one that predicts better is believed.

>>> estimator = Estimator("base", memory_s=60.0)
>>> for second, (n, r) in enumerate([(10, 1), (200, 1), (10, 8), (200, 8)] * 10):
...     busy = 1000 * (2e-5 + n * 1e-7 + r * 5e-6)
...     estimator.observe(float(second), Interval(1.0, received=1000, sent=1000 * r, filters=n, busy_s=busy))
>>> {name: f"{value:.2g}" for name, value in estimator.fitted().parameters.items()}
{'t_rcv': '2e-05', 't_fltr': '1e-07', 't_tx': '5e-06'}
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tidings.capacity.arrays import Array, check_finite, refuse
from tidings.capacity.batch_costs import FITTED, BatchCosts, Work, costs_of
from tidings.capacity.online_batches import BatchServer, server_seen, work_row
from tidings.capacity.planner import utilisation_allowed
from tidings.capacity.processing import Fitted, Load, model_named
from tidings.capacity.recursive_fit import FadingFit
from tidings.capacity.service import Moments, Poisson, service_moments
from tidings.capacity.waiting import GammaWaiting
from tidings.errors import UsageError

BATCHES = "batches"  # the name of the model that is none of tidings.capacity.processing


@dataclass(frozen=True, slots=True)
class Interval:
    """Counters of one interval. The sums of squares and cubes are of replication grades, if the broker counts them."""

    elapsed_s: float
    received: int
    sent: int
    filters: float
    busy_s: float
    sent_squares: float | None = None
    sent_cubes: float | None = None
    different: float | None = None
    components: float = 1.0
    reads: int | None = None
    writes: int = 0
    sleeps: int = 0

    def __post_init__(self) -> None:
        check_finite("elapsed_s", self.elapsed_s, 0, open_low=True)
        check_finite("received", self.received, 0)
        check_finite("sent", self.sent, 0)
        check_finite("busy_s", self.busy_s, 0)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The broker's estimates at one time. Waiting times are None while it is saturated or idle."""

    now: float
    model: str  # the one that predicted best: that of `fitted`, or BATCHES
    fitted: Fitted
    costs: BatchCosts | None  # of batches, if they are counted
    rate: float  # received messages per second
    replication: float
    utilisation: float  # measured: busy over elapsed
    service_mean: float  # by the model, at the present load
    capacity: float  # messages per second at `utilisation_max`, at the present load
    utilisation_max: float
    waiting_mean: float | None
    waiting_quantiles: tuple[tuple[float, float], ...] | None  # (probability, seconds)


class Estimator:
    """Counters in, `Snapshot` out; the time is an argument and must not go backwards."""

    def __init__(self, model: str = "log", memory_s: float = 300.0, prior: Fitted | None = None) -> None:
        check_finite("memory_s", memory_s, 0, open_low=True)
        if prior is not None and prior.name != model:
            raise refuse(f"the prior is a {prior.name} model, not {model}")
        self._model = model_named(model)
        self._memory_s = memory_s
        size = len(self._model.terms)
        self._fit = FadingFit(np.array(prior.values if prior else [0.0] * size))
        self._known = prior is not None
        self._batches = FadingFit(np.zeros(len(FITTED)))
        self._work: Work | None = None  # of the last interval with messages
        # Faded sums: elapsed, busy, received, and of replication grades the first three powers.
        self._sums: Array = np.zeros(6)
        self._now: float | None = None
        self._load: Load | None = None

    def observe(self, now: float, interval: Interval) -> None:
        """Take in the counters of the interval that ends now."""
        if not math.isfinite(now) or (self._now is not None and now < self._now):
            raise refuse(f"time {now} lies before {self._now}")
        fade = 1.0 if self._now is None else math.exp((self._now - now) / self._memory_s)
        self._now = now
        self._fit.fade(fade)
        self._batches.fade(fade)
        self._sums *= fade
        messages = interval.received
        self._sums += [interval.elapsed_s, interval.busy_s, messages, *_grade_sums(interval)]
        if messages:
            grade = interval.sent / messages
            self._load = Load(interval.filters, grade, interval.different, interval.components)
            self._fit.learn(np.array(self._model.row(self._load)), interval.busy_s, messages)
            self._known = True
            if interval.reads:
                self._work = _work(interval)
                self._batches.learn(work_row(self._work), interval.busy_s, messages)

    def fitted(self) -> Fitted:
        """The parameters as they are believed now."""
        if not self._known:
            raise refuse("no message was observed yet", "E_LAB_NOTHING_SEEN")
        return Fitted(self._model.name, tuple(self._fit.values.tolist()))

    def snapshot(self, probabilities: Sequence[float] = (0.99, 0.9999), utilisation_max: float = 0.9) -> Snapshot:
        """Utilisation, capacity and waiting times at the present load."""
        fitted = self.fitted()
        load, powers = self._now_asked()
        service = service_moments(fitted.fixed(load), fitted.t_tx, powers)
        elapsed, busy, received = self._sums[:3].tolist()
        rate, seen = received / elapsed, received >= 1.0
        waiting = _waiting(rate, service) if seen else None
        assert self._now is not None
        single = Snapshot(
            now=self._now,
            model=fitted.name,
            fitted=fitted,
            costs=None,
            rate=rate,
            replication=load.replication,
            utilisation=busy / elapsed,
            service_mean=float(service.first),
            capacity=fitted.capacity(load, utilisation_max),
            utilisation_max=utilisation_max,
            waiting_mean=None if waiting is None else float(waiting.mean),
            waiting_quantiles=None
            if waiting is None
            else tuple((p, float(waiting.quantile(p))) for p in probabilities),
        )
        server = self.batch_server()
        return single if server is None else _by_batches(single, server, probabilities, seen=seen)

    def batch_server(self) -> BatchServer | None:
        """The broker as one that serves batches; None: the other model predicts better, or batches are not counted."""
        if self._work is None or self._batches.error >= self._fit.error:
            return None
        server = server_seen(costs_of(self._batches.values), self._work)
        return server if server.scenario.mean(np.ones(1))[0] > 0 else None

    def rate_allowed(self, waiting_max: float, probability: float) -> float:
        """The largest rate at which the waiting time stays within the bound with this probability, as the load is.

        Of batches at most twice the present rate: more is not needed now, and takes longer to find out.
        """
        server = self.batch_server()
        if server is not None and self._work is not None:
            present = self._work.received / self._work.seconds
            return server.rate_allowed(waiting_max, probability, max(2 * present, 0.1 / float(server.alone.first)))
        fitted = self.fitted()
        load, powers = self._now_asked()
        service = service_moments(fitted.fixed(load), fitted.t_tx, powers)
        return utilisation_allowed(service, waiting_max, probability) / float(service.first)

    def _now_asked(self) -> tuple[Load, Moments]:
        """The present load, and the moments of its replication grade."""
        if self._load is None:
            raise refuse("no message was observed yet", "E_LAB_NOTHING_SEEN")
        received, *grades = self._sums[2:].tolist()
        if received >= 1.0:
            powers = Moments(*(total / received for total in grades))
        else:  # the last messages have faded, and the last load has to do
            powers = Poisson(self._load.replication).moments()
        return replace(self._load, replication=float(powers.first)), powers


def _grade_sums(interval: Interval) -> tuple[float, float, float]:
    if interval.sent_squares is not None and interval.sent_cubes is not None:
        return float(interval.sent), interval.sent_squares, interval.sent_cubes
    if not interval.received:
        return 0.0, 0.0, 0.0
    moments = Poisson(interval.sent / interval.received).moments()
    messages = interval.received
    return float(interval.sent), float(moments.second) * messages, float(moments.third) * messages


def _waiting(rate: float, service: Moments) -> GammaWaiting | None:
    try:
        return GammaWaiting.of(rate, service)
    except UsageError:
        return None


def _work(interval: Interval) -> Work:
    return Work(
        interval.elapsed_s,
        interval.busy_s,
        interval.reads or 0,
        interval.writes,
        interval.received,
        interval.sent,
        interval.filters,
        interval.sleeps,
    )


def _by_batches(single: Snapshot, server: BatchServer, probabilities: Sequence[float], *, seen: bool) -> Snapshot:
    """The same moment, by the other model."""
    outlook = None
    if seen:
        try:
            outlook = server.outlook(single.rate, probabilities)
        except UsageError:  # saturated
            outlook = None
    return replace(
        single,
        model=BATCHES,
        costs=server.scenario.costs,
        service_mean=float(server.alone.first),
        capacity=server.capacity(single.utilisation_max),
        waiting_mean=None if outlook is None else outlook.waiting_mean,
        waiting_quantiles=None if outlook is None else outlook.waiting_quantiles,
    )
