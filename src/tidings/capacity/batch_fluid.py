"""The batching server when too many messages wait for the chain of batching.py: the same queue, approximated.

As many messages wait at the end of a batch as came in the S(N) that its N took. Their number wanders around the size k
with k = λS(k): it is drawn back by the slope r = λS'(k) < 1, and thrown about by what comes more or less than expected,
so that Var N = (λS + λ²V)/(1 − r²), with V the variance of S. Arrivals that bring arrivals, while the fixed part of S
always brings some: such a branching process with immigration has, near its limit, a Gamma distribution, and where
batches are large that is nearly normal. So N is taken to be Gamma-distributed with this mean and variance, both
averaged over the distribution itself because S is curved. Who arrives waits for the rest of the batch under way, as in
the chain; the server is taken never to sleep. All this costs the same however many wait.

It needs a V that grows no faster than in proportion to the size, and a fixed part. If that brings less than a message,
batches are small and large by turns and the server does sleep: then waiting times are still right, for few arrive
outside the large batches, but sizes come out too small; and where there is next to nothing (SHAPE_MIN) it refuses.
Then nearly every message is served by itself, and more than the chain can hold wait only close to the server's limit.

>>> def mean(k):
...     return 1e-3 + 1e-6 * k
>>> queues = approximate(4e5, mean), analyse(4e5, mean)
>>> [f"{queue.batch_mean:.0f} messages, {queue.quantile(0.9999) * 1e3:.2f} ms" for queue in queues]
['667 messages, 1.73 ms', '667 messages, 1.73 ms']
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tidings.capacity.arrays import Array, check_finite, refuse
from tidings.capacity.batching import (
    SIZES_MAX,
    TOO_LARGE,
    BatchKind,
    BatchQueue,
    OfSize,
    analyse,
    check_capacity,
    no_variance,
)
from tidings.errors import UsageError
from tidings.extras import lazy

if TYPE_CHECKING:
    from scipy import optimize, special
else:
    optimize, special = lazy("scipy.optimize"), lazy("scipy.special")

CELLS = 64  # into which the distribution of sizes is divided
OUTSIDE = 1e-18  # probability on either side of them
ROUNDS = 4  # of averaging over the distribution
SHAPE_MIN = 0.02  # of the Gamma distribution: (mean/standard deviation)²
SLOPE_MAX = 1 - 1e-12
BEYOND = 5  # standard deviations: a chain that ends there says nothing


def queue_of(
    rate: float,
    mean: OfSize,
    variance: OfSize = no_variance,
    *,
    wake: float = 0.0,
    cold: float = 0.0,
    sizes_max: int = SIZES_MAX,
    kinds: Sequence[BatchKind] = (),
) -> BatchQueue:
    """By the chain while at most `sizes_max` messages wait, approximated where there are more.

    `kinds`: as for `analyse`; the approximation takes their common mean and variance.
    Refuses what the server cannot carry (E_LAB_OVERLOAD), and what neither way can tell (E_LAB_SIZES).
    """
    check_finite("rate", rate, 0, open_low=True)
    check_capacity(rate, mean)
    first = _linear(rate, mean, variance)
    if first.shape >= SHAPE_MIN and first.mean + BEYOND * math.sqrt(first.variance) > sizes_max:
        return approximate(rate, mean, variance)
    try:
        return analyse(rate, mean, variance, wake=wake, cold=cold, sizes_max=sizes_max, kinds=kinds)
    except UsageError as error:
        if error.code != "E_LAB_SIZES":
            raise
        return approximate(rate, mean, variance)


def approximate(rate: float, mean: OfSize, variance: OfSize = no_variance) -> BatchQueue:
    """The result of `analyse` for a server that takes everything that waits."""
    check_finite("rate", rate, 0, open_low=True)
    check_capacity(rate, mean)
    sizes = _linear(rate, mean, variance)
    for _ in range(ROUNDS):
        if not sizes.shape >= SHAPE_MIN:
            raise refuse(
                "too close to the server's capacity: batch sizes vary too much for the approximation", "E_LAB_SIZES"
            )
        sizes = _averaged(rate, mean, variance, sizes)
    values, shares = sizes.cells()
    means, variances = _of(mean, values), _of(variance, values)
    seconds = float(shares @ means)
    return BatchQueue(
        rate=rate,
        cycle=seconds,
        busy=1.0,
        slept=0.0,
        wake=0.0,
        waiting_mean=float(shares @ (variances + means**2)) / (2 * seconds),
        left_behind=0.0,
        _sizes=values,
        _shares=shares,
        _means=means,
        _variances=variances,
    )


@dataclass(frozen=True, slots=True)
class _Sizes:
    """The Gamma distribution of the sizes of batches."""

    mean: float
    variance: float

    @property
    def shape(self) -> float:
        return self.mean**2 / self.variance if self.variance > 0 else 0.0

    def cells(self) -> tuple[Array, Array]:
        """Sizes and their probabilities. Each size is the mean of its cell, so the mean of all is kept."""
        shape = self.shape
        ends = (
            math.sqrt(float(special.gammaincinv(shape, OUTSIDE))),
            math.sqrt(float(special.gammainccinv(shape, OUTSIDE))),
        )
        edges = np.linspace(*ends, CELLS + 1) ** 2  # closer together near 0, where unequal sizes crowd
        shares, parts = _within(shape, edges), _within(shape + 1, edges)
        there = shares > 0
        return parts[there] / shares[there] * self.mean, shares[there] / shares.sum()


def _within(shape: float, edges: Array) -> Array:
    """Probabilities between edges; above the mean as differences of tails, which are small there."""
    below, above = np.diff(special.gammainc(shape, edges)), -np.diff(special.gammaincc(shape, edges))
    return np.asarray(np.where(edges[1:] < shape, below, above), dtype=np.float64)


def _linear(rate: float, mean: OfSize, variance: OfSize) -> _Sizes:
    """S taken for a straight line at the k with k = λS(k)."""

    def excess(k: float) -> float:
        return rate * float(_of(mean, np.array([k]))[0]) - k

    low = 1.0 if excess(1.0) > 0 else 0.0  # where no messages cost nothing, 0 reproduces itself too
    k = float(optimize.brentq(excess, low, TOO_LARGE)) if excess(low) > 0 else 0.0
    step = max(k / 1000, 0.5)
    slope = min(1 + (excess(k + step) - excess(k)) / step, SLOPE_MAX)
    return _Sizes(k, (k + rate**2 * float(_of(variance, np.array([k]))[0])) / (1 - slope**2))


def _averaged(rate: float, mean: OfSize, variance: OfSize, sizes: _Sizes) -> _Sizes:
    """Closer to sizes that reproduce themselves: a step of Newton's method for the mean, and the variance there."""
    values, shares = sizes.cells()
    seconds, away = _of(mean, values), values - sizes.mean
    average = float(shares @ seconds)
    slope = min(rate * float(shares @ (away * seconds)) / float(shares @ away**2), SLOPE_MAX)
    curved = float(shares @ (seconds - average - slope / rate * away) ** 2)
    found = sizes.mean + (rate * average - sizes.mean) / (1 - slope)
    noise = rate * average + rate**2 * (float(_of(variance, np.array([sizes.mean]))[0]) + curved)
    return _Sizes(max(found, 0.0), noise / (1 - slope**2))


def _of(amount: OfSize, sizes: Array) -> Array:
    return np.asarray(np.broadcast_to(amount(sizes), sizes.shape), dtype=np.float64)
