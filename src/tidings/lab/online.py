"""The parameters of a running broker, estimated from its counters, and what they say about the next minutes.

Every interval the broker reports how many messages it received and sent, how many filters were installed and how
many seconds it was busy. The model says busy = Σ received·factor·parameter, which is one equation in the parameters;
intervals under different loads make it a regression. It is kept as normal equations, a k × k matrix and a vector,
in which the past fades with a time constant (recursive least squares with exponential forgetting). The non-negative
solution is found when somebody asks. Memory does not grow with time.

Forgetting has a known trap: while the load does not change, old intervals fade and new ones determine only one
combination of the parameters, so the others would drift on noise. The equations therefore carry a weak pull to the
last estimate (or to the stored model given as `prior`): what is not seen keeps its value. An interval counts in
proportion to its messages, since the variance of a sum does.

>>> estimator = Estimator("base", memory_s=60.0)
>>> for second, (n, r) in enumerate([(10, 1), (200, 1), (10, 8), (200, 8)] * 10):
...     busy = 1000 * (2e-5 + n * 1e-7 + r * 5e-6)
...     estimator.observe(float(second), Interval(1.0, received=1000, sent=1000 * r, filters=n, busy_s=busy))
>>> {name: f"{value:.2g}" for name, value in estimator.fitted().parameters.items()}
{'t_rcv': '2e-05', 't_fltr': '1e-07', 't_tx': '5e-06'}
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from tidings.errors import UsageError
from tidings.lab.arrays import Array, check_finite, refuse
from tidings.lab.processing import Fitted, Load, model_named
from tidings.lab.service import Moments, Poisson, service_moments
from tidings.lab.waiting import GammaWaiting

PULL = 1e-6  # weight of the last estimate against everything seen, per parameter


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

    def __post_init__(self) -> None:
        check_finite("elapsed_s", self.elapsed_s, 0, open_low=True)
        check_finite("received", self.received, 0)
        check_finite("sent", self.sent, 0)
        check_finite("busy_s", self.busy_s, 0)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What the broker knows about itself. Waiting times are None while it is saturated or idle."""

    now: float
    fitted: Fitted
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
        self._values: Array = np.array(prior.values if prior else [0.0] * size)
        self._known = prior is not None
        self._matrix: Array = np.zeros((size, size))
        self._vector: Array = np.zeros(size)
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
        self._matrix *= fade
        self._vector *= fade
        self._sums *= fade
        messages = interval.received
        self._sums += [interval.elapsed_s, interval.busy_s, messages, *_grade_sums(interval)]
        if messages:
            grade = interval.sent / messages
            self._load = Load(interval.filters, grade, interval.different, interval.components)
            row = np.array(self._model.row(self._load))
            self._matrix += messages * np.outer(row, row)
            self._vector += row * interval.busy_s
            self._values, self._known = self._solve(), True

    def fitted(self) -> Fitted:
        """The parameters as they are believed now."""
        if not self._known:
            raise refuse("no message was observed yet", "E_LAB_NOTHING_SEEN")
        return Fitted(self._model.name, tuple(self._values.tolist()))

    def snapshot(self, probabilities: Sequence[float] = (0.99, 0.9999), utilisation_max: float = 0.9) -> Snapshot:
        """Utilisation, capacity and waiting times at the present load."""
        fitted = self.fitted()
        if self._now is None or self._load is None:
            raise refuse("no message was observed yet", "E_LAB_NOTHING_SEEN")
        elapsed, busy, received, *grades = self._sums.tolist()
        seen = received >= 1.0  # else the last messages have faded, and the last load has to do
        powers = Moments(*(total / received for total in grades)) if seen else Poisson(self._load.replication).moments()
        load = Load(self._load.filters, float(powers.first), self._load.different, self._load.components)
        service = service_moments(fitted.fixed(load), fitted.t_tx, powers)
        rate = received / elapsed
        waiting = _waiting(rate, service) if seen else None
        return Snapshot(
            now=self._now,
            fitted=fitted,
            rate=rate,
            replication=float(powers.first),
            utilisation=busy / elapsed,
            service_mean=float(service.first),
            capacity=fitted.capacity(load, utilisation_max),
            utilisation_max=utilisation_max,
            waiting_mean=None if waiting is None else float(waiting.mean),
            waiting_quantiles=None
            if waiting is None
            else tuple((p, float(waiting.quantile(p))) for p in probabilities),
        )

    def _solve(self) -> Array:
        """min xᵀAx − 2bᵀx over x ≥ 0, as NNLS on the Cholesky factor of A, with columns scaled and the pull added."""
        scale = np.sqrt(np.diag(self._matrix))
        scale[scale == 0] = 1.0
        matrix = self._matrix / np.outer(scale, scale) + PULL * np.eye(len(scale))
        vector = self._vector / scale + PULL * self._values * scale
        factor = np.linalg.cholesky(matrix)
        target = np.linalg.solve(factor, vector)
        unit = float(np.linalg.norm(target)) or 1.0
        solution, _ = nnls(factor.T, target / unit)
        return np.asarray(solution * unit / scale, dtype=np.float64)


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
