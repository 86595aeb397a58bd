"""Discrete-time analysis of the GI/GI/1 queue with bounded delay: slow, general, a reference for the others.

Time is cut into units u, inter-arrival time A and service time B become distributions over whole units, and the
unfinished work just before and just after an arrival is iterated until it no longer changes:

    U⁻ ← max(U⁺ − A, 0)    (5.26)        U⁺ ← min(U⁻ + B, D_max)    (5.27)

U⁻ is what an arriving message has to wait for. Both steps are convolutions, done by FFT. The parameters of the
thesis's Table 5.1, with its defaults: n_u units in a mean inter-arrival time; ε_c, the largest change of any
probability at which the iteration stops; ε_d, the largest accepted probability of work at the delay bound (the bound
doubles until that holds); ε_f, the tail at which distributions are cut off.

The number of iterations grows like 1/(1 − ρ)², so heavy traffic with varying service takes hours: `iterations_max`
ends it with a LimitError instead. Cutting into units makes A and B up to one unit longer; compare results with
formulas only after putting in the *discretised* moments (`Distribution.moments`), as the thesis does. The thesis says
that a discretised M varies more; it varies less, with c_var = e^(−1/(2·n_u)): it is geometric.

>>> from hardening.queueing.exact import mm1_tail
>>> queue = analyse(exponential_cdf(1.0), exponential_cdf(0.5), mean_interarrival=1.0)
>>> bool(abs(queue.tail(2.0) / mm1_tail(2.0, rate=1.0, service=0.5) - 1) < 0.01)
True
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from tidings.capacity.arrays import Array, check_finite, refuse
from tidings.capacity.service import Moments
from tidings.capacity.waiting import C_VAR_MIN
from tidings.errors import LimitError
from tidings.extras import lazy

if TYPE_CHECKING:
    from scipy import fft, special
else:
    fft, special = lazy("scipy.fft"), lazy("scipy.special")

Cdf: TypeAlias = Callable[[Array], Array]
UNITS_MAX = 1 << 22


@dataclass(frozen=True, slots=True)
class DiscreteSettings:
    """Table 5.1."""

    n_u: int = 100
    eps_c: float = 1e-8
    eps_d: float = 1e-10
    eps_f: float = 1e-4
    iterations_max: int = 200_000

    def __post_init__(self) -> None:
        check_finite("n_u", self.n_u, 1, UNITS_MAX)
        for name, value in (("eps_c", self.eps_c), ("eps_d", self.eps_d), ("eps_f", self.eps_f)):
            check_finite(name, value, 0, 0.5, open_low=True)


@dataclass(frozen=True, slots=True)
class Distribution:
    """Probabilities of 0, 1, 2, … units."""

    probabilities: Array
    unit: float

    def moments(self) -> Moments:
        p, t = self.probabilities, np.arange(len(self.probabilities)) * self.unit
        return Moments(float(p @ t), float(p @ t**2), float(p @ t**3))


@dataclass(frozen=True, slots=True)
class DiscreteWaiting:
    """The stationary waiting time, and what it took to find it."""

    waiting: Distribution
    interarrival: Distribution
    service: Distribution
    iterations: int
    at_bound: float  # P(U⁺ = D_max)
    _tails: Array = field(repr=False)

    @property
    def rho(self) -> float:
        """ρ' of the discretised system."""
        return float(self.service.moments().first) / float(self.interarrival.moments().first)

    def tail(self, t: float) -> float:
        """P(W > t)."""
        check_finite("t", t, 0)
        index = int(np.floor(t / self.waiting.unit * (1 + 1e-12)))
        return float(self._tails[index]) if index < len(self._tails) else 0.0

    def quantile(self, p: float) -> float:
        """The shortest t with P(W ≤ t) ≥ p."""
        check_finite("p", p, 0, 1)
        index = int(np.searchsorted(-self._tails, -(1 - p) * (1 + 1e-12)))
        return min(index, len(self._tails) - 1) * self.waiting.unit


def discretise(cdf: Cdf, unit: float, eps_f: float) -> Distribution:
    """(5.29), (5.30): P(k) = F(k·u) − F((k − 1)·u) for k > 0, cut off where 1 − F < ε_f."""
    count = 64
    while 1 - float(cdf(np.array([count * unit]))[0]) >= eps_f:
        count *= 2
        if count > UNITS_MAX:
            raise LimitError("E_LAB_UNITS", f"more than {UNITS_MAX} units below the tail {eps_f:g}")
    steps = np.asarray(cdf(np.arange(count + 1, dtype=np.float64) * unit), dtype=np.float64)
    last = int(np.argmax(1 - steps < eps_f))
    steps = steps[: last + 1].copy()
    steps[0], steps[last] = 0.0, 1.0
    if last == 0:
        raise refuse("the distribution lies entirely at zero")
    return Distribution(np.concatenate([[0.0], np.diff(steps)]), unit)


def analyse(
    interarrival: Cdf, service: Cdf, mean_interarrival: float, settings: DiscreteSettings | None = None
) -> DiscreteWaiting:
    """The waiting time of the continuous queue, approximated in discrete time with E[A] = n_u·u."""
    settings = settings or DiscreteSettings()
    check_finite("mean_interarrival", mean_interarrival, 0, open_low=True)
    unit = mean_interarrival / settings.n_u
    return analyse_discrete(
        discretise(interarrival, unit, settings.eps_f), discretise(service, unit, settings.eps_f), settings
    )


def analyse_discrete(a: Distribution, b: Distribution, settings: DiscreteSettings | None = None) -> DiscreteWaiting:
    """The same for distributions that are discrete already, over the same unit."""
    settings = settings or DiscreteSettings()
    if a.unit != b.unit:
        raise refuse("inter-arrival and service time must share their unit")
    rho = float(b.moments().first) / float(a.moments().first)
    if rho >= 1:
        raise refuse(f"utilisation {rho:.4g}: the queue grows without bound from 1", "E_LAB_OVERLOAD")
    bound = 4 * (len(a.probabilities) + len(b.probabilities))
    work = np.array([1.0])  # the first message finds the server idle
    done = 0
    while True:
        work = np.pad(work, (0, bound + 1 - len(work)))
        work, after, done = _iterate(a.probabilities, b.probabilities, work, settings, done)
        if after[-1] <= settings.eps_d:
            tails = np.maximum(np.cumsum(work[::-1])[::-1] - work, 0.0)
            return DiscreteWaiting(Distribution(work, a.unit), a, b, done, float(after[-1]), tails)
        bound *= 2
        if bound > UNITS_MAX:
            raise LimitError("E_LAB_UNITS", f"the delay bound exceeds {UNITS_MAX} units")


def _iterate(a: Array, b: Array, work: Array, settings: DiscreteSettings, done: int) -> tuple[Array, Array, int]:
    size = len(work)
    length = fft.next_fast_len(size + max(len(a), len(b)) - 1, real=True)
    serve, pass_by = fft.rfft(b, length), fft.rfft(a[::-1], length)
    while done < settings.iterations_max:
        done += 1
        added = np.maximum(fft.irfft(fft.rfft(work, length) * serve, length), 0.0)
        after = added[:size].copy()
        after[-1] += added[size:].sum()
        reduced = np.maximum(fft.irfft(fft.rfft(after, length) * pass_by, length), 0.0)
        zero = len(a) - 1  # where "no work left" came to lie
        before = reduced[zero : zero + size].copy()
        before[0] += reduced[:zero].sum()
        before /= before.sum()
        change = float(np.abs(before - work).max())
        work = before
        if change <= settings.eps_c:
            return work, after, done
        if after[-1] > 100 * settings.eps_d and done % 16 == 0:
            return work, after, done  # the bound is too small already: no use in converging to it
    raise LimitError("E_LAB_ITERATIONS", f"not converged after {settings.iterations_max} iterations")


def exponential_cdf(mean: float) -> Cdf:
    return lambda t: np.asarray(-np.expm1(-t / mean), dtype=np.float64)


def constant_cdf(value: float) -> Cdf:
    return lambda t: np.asarray(t >= value * (1 - 1e-12), dtype=np.float64)


def gamma_cdf(mean: float, c_var: float) -> Cdf:
    if c_var < C_VAR_MIN:
        return constant_cdf(mean)
    return lambda t: np.asarray(special.gammainc(1 / c_var**2, t / (mean * c_var**2)), dtype=np.float64)
