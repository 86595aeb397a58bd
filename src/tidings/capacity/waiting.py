"""Waiting times of the M/GI/1 queue, from the first three moments of the service time.

Poisson arrivals of rate λ, one server, service times B independent of each other. A message waits at all with
probability ρ = λE[B]. The moments of the waiting time W follow from those of B (Takács); its distribution is known
only as a transform (Pollaczek–Khintchine). The *Gamma-approximation* of the thesis takes the waiting time of those
that wait to be Gamma-distributed with the right mean and variance:

    P(W > t) = ρ · P(Gamma(α, β) > t),    α = 1/c_var²[W | W > 0],    β = E[W | W > 0]/α

It is exact for exponential service and costs about a microsecond a quantile, so a running broker can afford it. What
it is worth elsewhere is tabulated in bench/results/waiting_accuracy.md, against numerical inversion of the transform
(Abate and Whitt's Euler algorithm, good to about 1e-8 where the distribution is smooth), discrete-time analysis, and
simulation. All functions work element by element on arrays.

Reference: the thesis named in `tidings.capacity.processing`, section 5.1. Printed wrongly there and corrected here:
(5.1) has E[B^(k−i)] for E[W^(k−i)]; (5.2) divides by E[B] once too often; before (5.46), α = 1/c_var for 1/c_var². The
bound "less than 50·E[B]" for 99.99 % at ρ = 0.9 holds up to c_var = 0.37 only: at 0.4 it is 51.06·E[B].

`ExponentialWaiting` is the simpler approximation that the thesis compares with, (5.11) to (5.13): right in the mean,
and in the tail of a busy server. Of its two terms (5.12) subtracts the second one; it must be added, as the tails of
M/D/1 and M/Gamma/1 show. Of (5.10), a sum of two exponentials, the thesis gives no parameters.

>>> from tidings.capacity.service import gamma_moments
>>> waiting = GammaWaiting.of(rate=0.9, service=gamma_moments(1.0, 0.0))  # M/D/1, times in units of E[B]
>>> [round(float(x), 4) for x in (waiting.mean, waiting.alpha, waiting.quantile(0.9999))]
[4.5, 1.0714, 43.4397]
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tidings.capacity.arrays import Array, Floats, check_finite, refuse
from tidings.capacity.service import Moments
from tidings.extras import lazy

if TYPE_CHECKING:
    from scipy import special
else:
    special = lazy("scipy.special")

C_VAR_MIN = 1e-6  # what varies less is constant


def utilisation(rate: Floats, mean_service: Floats) -> Floats:
    """ρ = λ·E[B]; at 1 and above there is no stationary waiting time, and this refuses."""
    check_finite("rate", rate, 0)
    check_finite("mean_service", mean_service, 0, open_low=True)
    rho = rate * mean_service
    if bool(np.any(np.asarray(rho) >= 1)):
        raise refuse(f"utilisation {np.max(rho):.4g}: the queue grows without bound from 1", "E_LAB_OVERLOAD")
    return rho


def waiting_moments(rate: Floats, service: Moments) -> tuple[Floats, Floats]:
    """(5.2) corrected and (5.3): E[W] and E[W²], over all messages."""
    rho = utilisation(rate, service.first)
    first = rate * service.second / (2 * (1 - rho))
    return first, 2 * first**2 + rate * service.third / (3 * (1 - rho))


@dataclass(frozen=True, slots=True)
class GammaWaiting:
    """The approximated distribution of the waiting time: an atom 1 − ρ at zero, and a Gamma-distribution."""

    rho: Floats
    alpha: Floats
    beta: Floats

    @classmethod
    def of(cls, rate: Floats, service: Moments) -> "GammaWaiting":
        """(5.4), (5.5), (5.23), (5.24): fitted to mean and variance of the waiting time of delayed messages."""
        check_finite("rate", rate, 0, open_low=True)
        rho = utilisation(rate, service.first)
        # E[W]/ρ and E[W²]/ρ with the rate cancelled: at a rate next to nothing both would be 0/0.
        busy = service.first * (1 - rho)
        first = service.second / (2 * busy)
        second = 2 * rho * first**2 + service.third / (3 * busy)
        alpha = first**2 / (second - first**2)
        return cls(rho, alpha, first / alpha)

    @property
    def mean(self) -> Floats:
        """E[W] over all messages."""
        return self.rho * self.alpha * self.beta

    def tail(self, t: Floats) -> Floats:
        """P(W > t), by (5.25)."""
        check_finite("t", t, 0)
        return np.asarray(self.rho * special.gammaincc(self.alpha, np.asarray(t) / self.beta), dtype=np.float64)[()]

    def cdf(self, t: Floats) -> Floats:
        """P(W ≤ t), by (5.25)."""
        return 1 - self.tail(t)

    def quantile(self, p: Floats) -> Floats:
        """The shortest t with P(W ≤ t) ≥ p; zero while p ≤ 1 − ρ."""
        check_finite("p", p, 0, np.nextafter(1, 0))
        left, rho = 1 - np.asarray(p), np.asarray(self.rho)
        beyond = np.where(left < rho, left / np.maximum(rho, np.finfo(np.float64).tiny), 1.0)
        return np.asarray(self.beta * special.gammainccinv(self.alpha, beyond), dtype=np.float64)[()]


@dataclass(frozen=True, slots=True)
class ExponentialWaiting:
    """P(W > t) = α·e^(−ηt), for M/Gamma/1 with much load; α may exceed 1 where there is little."""

    alpha: float
    eta: float  # 1/s

    @classmethod
    def of(cls, rate: float, service: Moments) -> "ExponentialWaiting":
        """(5.12) and (5.13), which count times in units of E[B]."""
        rho, square, unit = float(utilisation(rate, service.first)), float(service.c_var) ** 2, float(service.first)
        eta = 2 * (1 - rho) / (1 + square) * (1 + (1 - rho) * (1 - square) / (3 * (1 + square)))
        first, _ = waiting_moments(rate, service)
        return cls(eta * float(first) / unit, eta / unit)

    @property
    def mean(self) -> float:
        return self.alpha / self.eta

    def tail(self, t: Floats) -> Floats:
        """P(W > t), by (5.11)."""
        check_finite("t", t, 0)
        return np.minimum(self.alpha * np.exp(-self.eta * np.asarray(t)), 1.0)[()]


def quantiles(rates: Array, service: Moments, p: Floats) -> Array:
    """Quantiles of many queues at once; a convenience for sweeps and dashboards."""
    return np.atleast_1d(np.asarray(GammaWaiting.of(rates, service).quantile(p), dtype=np.float64))
