"""Waiting times that are known exactly: M/M/1 and M/D/1.

For M/D/1 the textbook form of P(W ≤ t) is a finite sum whose terms alternate in sign and grow like e^(ρt/D); beyond
t of some twenty service times nothing is left of sixteen digits. Three ways around it, none of which subtracts:

* series: the thesis's (5.9) is written for the *tail*, and all its terms are positive: with τ = t/D,
  P(W > t) = (1 − ρ)·Σ_{n > τ} Poisson(n; ρ(n − τ)). Summed in logarithms it has full relative precision for any t,
  also where the probability itself would underflow. It needs about 80/(1 − ρ)² terms, so it serves ρ ≤ 0.95.
* recursion, for short times in heavy traffic: condition on the number in system (Franx 2001). For k − 1 ≤ τ < k,
  P(W ≤ t) = Σ_{j<k} P(L ≤ k − j)·Poisson(j; ρ(k − τ)), where P(L = j) comes from cut equations with positive terms
  only. The complement loses nothing, as the tail is not small there.
* pole, for long times in heavy traffic: the tail is C·e^(−ητ) with ρ(e^η − 1) = η and C = (1 − ρ)/(ρe^η − 1); the
  next poles lie more than 1.9 further left, so beyond τ = 20 they contribute less than 1e-16.

>>> round(float(md1_tail(40.0, rate=0.9, service=1.0)), 6)
0.000235
"""

import math
from typing import TYPE_CHECKING

import numpy as np

from tidings.capacity.arrays import Array, Floats, check_finite
from tidings.capacity.waiting import utilisation
from tidings.extras import lazy

if TYPE_CHECKING:
    from scipy import optimize, special, stats
else:
    optimize, special, stats = lazy("scipy.optimize"), lazy("scipy.special"), lazy("scipy.stats")

SERIES_RHO_MAX = 0.95
POLE_FROM = 20.0  # service times
_NEGLIGIBLE = 40.0  # in natural logarithms: 4e-18


def mm1_tail(t: Floats, rate: float, service: float) -> Floats:
    """(5.8): P(W > t) = ρ·e^(−(1−ρ)t/E[B])."""
    check_finite("t", t, 0)
    rho = float(utilisation(rate, service))
    return rho * np.exp(-(1 - rho) * np.asarray(t) / service)


def mm1_quantile(p: Floats, rate: float, service: float) -> Floats:
    """The inverse of (5.8)."""
    check_finite("p", p, 0, np.nextafter(1, 0))
    rho = float(utilisation(rate, service))
    return np.maximum(np.log(rho / (1 - np.asarray(p))), 0.0) * service / (1 - rho)


def md1_tail(t: Floats, rate: float, service: float) -> Floats:
    """(5.9): P(W > t) for a constant service time, stable for all t."""
    return np.exp(md1_log_tail(t, rate, service))


def md1_log_tail(t: Floats, rate: float, service: float) -> Floats:
    """ln P(W > t), for tails too thin for a float."""
    check_finite("t", t, 0)
    check_finite("rate", rate, 0, open_low=True)
    rho = float(utilisation(rate, service))
    taus = np.asarray(t, dtype=np.float64) / service
    logs = [_log_tail(rho, float(tau)) for tau in np.atleast_1d(taus).ravel()]
    return np.asarray(np.array(logs).reshape(taus.shape), dtype=np.float64)[()]


def md1_quantile(p: float, rate: float, service: float) -> float:
    """The p-quantile of the M/D/1 waiting time."""
    check_finite("p", p, 0, np.nextafter(1, 0))
    rho = float(utilisation(rate, service))
    target, high = math.log1p(-p), 1.0
    if p <= 1 - rho or _log_tail(rho, 0.0) <= target:  # the second: 1 − ρ and the tail at 0 are rounded differently
        return 0.0
    while _log_tail(rho, high) > target:
        high *= 2
    return service * float(optimize.brentq(lambda tau: _log_tail(rho, tau) - target, 0.0, high, xtol=1e-12))


def _log_tail(rho: float, tau: float) -> float:
    if rho <= SERIES_RHO_MAX:
        return _by_series(rho, tau)
    return _by_pole(rho, tau) if tau >= POLE_FROM else _by_recursion(rho, tau)


def _by_series(rho: float, tau: float) -> float:
    total, largest, start, size = -np.inf, -np.inf, math.floor(tau) + 1, 1024
    while True:
        n = np.arange(start, start + size, dtype=np.float64)
        mean = rho * (n - tau)
        logs = special.xlogy(n, mean) - mean - special.gammaln(n + 1)
        total = float(np.logaddexp(total, special.logsumexp(logs)))
        largest = max(largest, float(logs.max()))
        # Terms rise to one peak and then fall at least geometrically, by rho·e^(1 − rho) in the end.
        if logs[-1] < logs[-2] and logs[-1] < largest - _NEGLIGIBLE + math.log(1 - rho):
            return math.log(1 - rho) + total
        start, size = start + size, 2 * size


def _by_recursion(rho: float, tau: float) -> float:
    k = math.floor(tau) + 1
    at_most = np.cumsum(_number_in_system(rho, k))  # at_most[j] = P(L <= j)
    j = np.arange(k)
    return math.log1p(-float(at_most[k - j] @ stats.poisson.pmf(j, rho * (k - tau))))


def _number_in_system(rho: float, largest: int) -> Array:
    """P(L = 0) … P(L = largest): what enters the states above j must leave them again, one service at a time."""
    none = math.exp(-rho)
    more_than = stats.poisson.sf(np.arange(largest + 1), rho)
    p = np.zeros(largest + 1)
    p[0] = 1 - rho
    for j in range(largest):
        p[j + 1] = (p[0] * more_than[j] + float(p[1 : j + 1] @ more_than[j:0:-1])) / none
    return p


def _by_pole(rho: float, tau: float) -> float:
    """With ρ(e^η − 1) = η also ρe^η − 1 = η − (1 − ρ): close to ρ = 1 nothing is lost, if η is known well."""
    lack = 1 - rho
    high = 4 * lack
    while _lack(high) <= lack:
        high *= 2
    eta = float(optimize.brentq(lambda x: _lack(x) - lack, lack, high, xtol=1e-16 * lack, rtol=1e-15))
    return math.log(lack / (eta - lack)) - eta * tau


def _lack(x: float) -> float:
    """The 1 − ρ that has this η: 1 − η/(e^η − 1), for small η by its series (Bernoulli numbers)."""
    if x > 0.2:
        return 1 - x / math.expm1(x)
    square = x * x
    return x / 2 - square * (1 / 12 - square * (1 / 720 - square * (1 / 30240 - square / 1209600)))
