"""Waiting times of the M/GI/1 queue without an approximation: moments by Takács, tails by inverting the transform.

The transform is Pollaczek–Khintchine's; the inversion is Abate and Whitt's Euler algorithm, good to about 1e-8 where
the distribution is smooth. References for `tidings.capacity.waiting`.
"""

from collections.abc import Callable, Sequence
from math import comb, pi
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from tidings.capacity.arrays import Floats, check_finite, refuse
from tidings.capacity.service import Replication
from tidings.capacity.waiting import C_VAR_MIN, utilisation

Complex: TypeAlias = NDArray[np.complex128]
Transform: TypeAlias = Callable[[Complex], Complex]

INVERSION_P_MAX = 1 - 1e-6  # beyond, the error of the inversion counts


def takacs(rate: float, raw_moments: Sequence[float], order: int) -> list[float]:
    """(5.1) corrected: E[W^0] … E[W^order] from raw_moments[k] = E[B^(k+1)], of which order + 1 are needed."""
    if order < 0 or len(raw_moments) < order + 1:
        raise refuse(f"{order} moments of the waiting time need {order + 1} of the service time")
    factor = rate / (1 - float(utilisation(rate, raw_moments[0])))
    waiting = [1.0]
    for k in range(1, order + 1):
        terms = (comb(k, i) * raw_moments[i] / (i + 1) * waiting[k - i] for i in range(1, k + 1))
        waiting.append(factor * sum(terms))
    return waiting


def service_transform(fixed: float, t_tx: float, replication: Replication) -> Transform:
    """B*(s) = e^(−sD)·E[(e^(−s·t_tx))^R], for B = D + R·t_tx."""
    return lambda s: np.exp(-s * fixed) * replication.generating(np.exp(-s * t_tx))


def gamma_transform(mean: float, c_var: float) -> Transform:
    """B*(s) of a Gamma-distributed service time; c_var = 0 is the constant."""
    check_finite("c_var", c_var, 0)
    if c_var < C_VAR_MIN:
        return lambda s: np.exp(-s * mean)
    shape = 1 / c_var**2
    return lambda s: np.exp(-shape * np.log1p(s * (mean / shape)))


def pollaczek_khintchine(s: Complex, rate: float, mean_service: float, service: Transform) -> Complex:
    """(5.7): the Laplace–Stieltjes transform of the waiting time, W*(s) = s(1 − ρ)/(s − λ + λB*(s))."""
    rho = float(utilisation(rate, mean_service))
    return np.asarray(s * (1 - rho) / (s - rate + rate * service(s)), dtype=np.complex128)


# Euler summation: the plain partial sum after _PLAIN terms and _EULER more, binomially averaged.
_PLAIN, _EULER, _ABSCISSA = 60, 16, 18.4
_K = np.arange(_PLAIN + _EULER + 1)
_AVERAGE = np.cumsum([float(comb(_EULER, k)) for k in range(_EULER + 1)][::-1])[::-1] / 2.0**_EULER
_WEIGHTS = np.where(_K % 2 == 0, 1.0, -1.0) * np.concatenate([[0.5], np.ones(_PLAIN - 1), _AVERAGE])


def tail_by_inversion(t: Floats, rate: float, mean_service: float, service: Transform) -> Floats:
    """P(W > t) for t > 0 by inverting (1 − W*(s))/s numerically; error about 1e-8 where the tail is smooth."""
    check_finite("t", t, 0, open_low=True)
    times = np.asarray(t, dtype=np.float64)[..., None]
    s = np.asarray((_ABSCISSA + 2j * pi * _K) / (2 * times), dtype=np.complex128)
    values = ((1 - pollaczek_khintchine(s, rate, mean_service, service)) / s).real
    return np.asarray((values @ _WEIGHTS) * np.exp(_ABSCISSA / 2) / times[..., 0], dtype=np.float64)[()]


def quantile_by_inversion(p: float, rate: float, mean_service: float, service: Transform) -> float:
    """The p-quantile of W from `tail_by_inversion`, by root finding; for 1 − p ≥ 1e-6."""
    check_finite("p", p, 0, INVERSION_P_MAX)
    rho = float(utilisation(rate, mean_service))
    if p <= 1 - rho:
        return 0.0
    high = mean_service

    def excess(t: float) -> float:
        return float(tail_by_inversion(t, rate, mean_service, service)) - (1 - p)

    for _ in range(200):
        if excess(high) < 0:
            return float(optimize.brentq(excess, mean_service * 1e-9, high, xtol=1e-12 * high, rtol=1e-10))
        high *= 2
    raise refuse(f"no waiting time has the cumulative probability {p}")
