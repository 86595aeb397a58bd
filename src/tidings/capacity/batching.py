"""A server that takes all waiting messages at once: how busy it is, and how long messages wait.

Our broker reads what a socket holds, matches it, and writes once to each receiver. So a batch of k messages costs about
a + b·k, with a much larger than b, and M/GI/1, where every message costs the same, is far too pessimistic under load.
The queue here: Poisson arrivals of rate λ; a server that has finished takes everything that waits, or the first `bound`
of it; a batch of k takes a time S(k). If nothing waits it sleeps. The first message to come finds it up only after the
time `wake`, what arrives meanwhile goes along, and their batch takes `cold` longer than others: somebody else has used
the caches.

The numbers of messages that wait when batches end form a Markov chain: from n the server takes k = min(n, bound), and
as many come as arrive in S(k). With S(k) Gamma-distributed (given mean and variance) these are negative binomial. The
stationary distribution of the chain, from one linear system, gives batch sizes, and then by Little's law the mean
waiting time, exactly. Without a bound a message that comes during a batch waits for the rest of that batch and no
more, which is the equilibrium distribution of a Gamma variable: quantiles are exact as well. Waiting ends when the
message's batch begins. Where too many wait for a linear system, batch_fluid.py approximates.

Reference: M. L. Chaudhry, J. G. C. Templeton, *A First Course in Bulk Queues* (1983), M/G^(1,b)/1; the chain is
embedded at ends of batches as there in chapter 4.

>>> linear = lambda k: 50e-6 + 1e-6 * k
>>> queue = analyse(20_000.0, linear, bound=None)
>>> round(queue.batch_mean, 3), round(queue.busy, 3), f"{queue.waiting_mean * 1e6:.1f} us"
(1.386, 0.742, '19.1 us')
>>> one = analyse(10_000.0, linear, bound=1)  # M/D/1 with E[B] = 51 us
>>> round(one.waiting_mean * 1e6, 3), round(0.51 * 51 / 2 / 0.49, 3)
(26.541, 26.541)
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tidings.capacity.arrays import Array, Floats, check_finite, refuse
from tidings.errors import UsageError
from tidings.extras import lazy

if TYPE_CHECKING:
    from scipy import optimize, special
else:
    optimize, special = lazy("scipy.optimize"), lazy("scipy.special")

SIZES_MIN, SIZES_MAX = 32, 1024
TOO_LARGE = float(1 << 40)  # for a batch: what is said of it holds without limit
NEGLIGIBLE = 1e-10  # probability beyond the largest size that is looked at
C_VAR_MIN = 1e-3  # what varies less is constant

OfSize = Callable[[Array], Array]  # of an array of batch sizes


def no_variance(_: Array) -> Array:
    return np.zeros(1)


def always(_: Array) -> Array:
    return np.ones(1)


@dataclass(frozen=True, slots=True)
class BatchKind:
    """One of several kinds of batches, which a batch is with a probability that depends on its size.

    Where all receivers want a message or none, a batch costs little or much, and nothing between: a mixture, of which
    the mean says as little as the mean of its kinds.
    """

    share: OfSize
    mean: OfSize
    variance: OfSize = no_variance


def mixed(kinds: Sequence[BatchKind]) -> tuple[OfSize, OfSize]:
    """Mean and variance of a batch of any kind."""

    def mean(k: Array) -> Array:
        return np.asarray(sum(one.share(k) * one.mean(k) for one in kinds), dtype=np.float64)

    def variance(k: Array) -> Array:
        squares = sum(one.share(k) * (one.variance(k) + one.mean(k) ** 2) for one in kinds)
        return np.maximum(np.asarray(squares - mean(k) ** 2, dtype=np.float64), 0.0)

    return mean, variance


@dataclass(frozen=True, slots=True)
class BatchQueue:
    """The stationary queue. Times in seconds."""

    rate: float
    cycle: float  # from the end of a batch to the end of the next, on average
    busy: float  # share of time in which a batch is served
    slept: float  # share of batches before which the server slept
    wake: float
    waiting_mean: float
    left_behind: float  # probability that a batch leaves some waiting for the one after it: there is a bound
    # Every kind of batch, by size and by whether the server slept before: its share and its moments.
    _sizes: Array = field(repr=False)
    _shares: Array = field(repr=False)
    _means: Array = field(repr=False)
    _variances: Array = field(repr=False)

    @property
    def batch_mean(self) -> float:
        """Messages in a batch."""
        return float(self._shares @ self._sizes)

    @property
    def response_mean(self) -> float:
        """From arrival to the end of the message's batch."""
        return self.waiting_mean + float((self._shares * self._sizes) @ self._means) / self.batch_mean

    @property
    def per_batch_s(self) -> float:
        """The mean duration of a batch."""
        return self.busy * self.cycle

    def per_batch(self, amount: OfSize) -> float:
        """The mean of something that depends on a batch's size."""
        return float(self._shares @ amount(self._sizes))

    def tail(self, t: Floats) -> Floats:
        """P(W > t), for a server that takes all that waits."""
        if self.left_behind > NEGLIGIBLE:
            raise refuse(
                "quantiles of the waiting time need a bound of the batch size that is not reached; choose a larger one",
                "E_LAB_BOUND",
            )
        times = np.atleast_1d(np.asarray(t, dtype=np.float64))
        in_batch = np.array([float((self._shares * self._means) @ self._residual_tail(one)) for one in times])
        waking = np.where(times < self.wake, 1 / self.rate + self.wake - times, 0.0)
        found = (in_batch + self.slept * waking) / self.cycle
        return np.asarray(found if np.ndim(t) else found[0], dtype=np.float64)[()]

    def quantile(self, p: float) -> float:
        """The shortest t with P(W ≤ t) ≥ p."""
        check_finite("p", p, 0, np.nextafter(1, 0))
        if float(self.tail(0.0)) <= 1 - p:
            return 0.0
        high = float(self._means.max()) + self.wake
        while float(self.tail(high)) > 1 - p:
            high *= 2
        return float(optimize.brentq(lambda t: float(self.tail(t)) - (1 - p), 0.0, high, xtol=1e-12, rtol=1e-9))

    def _residual_tail(self, t: float) -> Array:
        """Of the rest of a batch that is under way, by size: ∫ from t of P(S > u) du, over E[S]."""
        means, variances = self._means, self._variances
        fixed = variances <= (C_VAR_MIN * means) ** 2
        beta = np.where(fixed, 1.0, variances / means)
        alpha = np.where(fixed, 1.0, means / beta)
        varying = special.gammaincc(alpha + 1, t / beta) - t / means * special.gammaincc(alpha, t / beta)
        return np.asarray(np.where(fixed, np.maximum(1 - t / means, 0.0), varying), dtype=np.float64)


def analyse(
    rate: float,
    mean: OfSize,
    variance: OfSize = no_variance,
    *,
    wake: float = 0.0,
    cold: float = 0.0,
    bound: int | None = None,
    sizes_max: int = SIZES_MAX,
    kinds: Sequence[BatchKind] = (),
) -> BatchQueue:
    """The queue with these moments of S(k); refuses (E_LAB_OVERLOAD) a load that the server cannot carry.

    `kinds`: of which S(k) is a mixture (`mixed`); none: S(k) is of one kind.

    The analysis takes time like the square of the number of messages that may wait: `sizes_max` of them at most. Where
    more do, the server may be far from its limit all the same; that refusal is another (E_LAB_SIZES).
    """
    check_finite("rate", rate, 0, open_low=True)
    check_finite("wake", wake, 0)
    check_finite("cold", cold, 0)
    if bound is not None:
        check_finite("bound", bound, 1)
        if wake > 0:
            raise refuse(
                "a bound of the batch size and a wake-up time cannot be combined; leave one of them out", "E_LAB_BOUND"
            )
    check_capacity(rate, mean, bound)
    size, parts = SIZES_MIN, tuple(kinds) or (BatchKind(always, mean, variance),)
    while size <= sizes_max:
        found = _Chain(rate, parts, cold, size).solved(wake, bound or size)
        if found is not None:
            return found
        size *= 2
    raise refuse(f"more than {sizes_max} messages wait: too many for the analysis", "E_LAB_SIZES")


def check_capacity(rate: float, mean: OfSize, bound: int | None = None) -> None:
    if rate >= capacity(mean, bound):
        raise refuse(f"overload: the server cannot carry {rate:.6g} messages/s", "E_LAB_OVERLOAD")


def capacity(mean: OfSize, bound: int | None = None) -> float:
    """Messages a second at saturation: bound/S(bound), or the limit of k/S(k)."""
    k = float(bound) if bound is not None else TOO_LARGE
    seconds = float(mean(np.array([k]))[0])
    check_finite("the time a batch takes", seconds, 0, open_low=True)
    return k / seconds


def rate_at(busy: float, queue: Callable[[float], BatchQueue], rate_max: float) -> float:
    """The rate at which a server is busy for this share of the time: the other way round. `queue`: analyses a rate."""
    check_finite("busy", busy, 0, 0.999, open_low=True)

    def excess(rate: float) -> float:
        try:
            return queue(rate).busy - busy
        except UsageError as error:
            if error.code not in ("E_LAB_OVERLOAD", "E_LAB_SIZES"):
                raise
            return 1.0 - busy  # overload, or a queue so long that utilisation is at least that high

    low = rate_max * 1e-9
    while excess(low) >= 0:  # where a message of a batch costs next to nothing, there is hardly a limit
        low /= 1000
    high = busy / queue(low).per_batch_s  # at which messages one by one would keep it so busy
    while excess(high) < 0:  # from below: the closer to the limit, the longer the analysis
        low, high = high, min(high * 2, (high + rate_max) / 2)
    return float(optimize.brentq(excess, low, high, rtol=1e-6, xtol=1e-6))


class _Chain:
    """The embedded chain with at most `size` messages waiting."""

    def __init__(self, rate: float, kinds: Sequence[BatchKind], cold: float, size: int) -> None:
        k = np.arange(1, size + 1, dtype=np.float64)
        self._rate, self._size, self._cold = rate, size, cold
        # A row for each kind, a column for each size.
        self._shares = np.array([np.broadcast_to(one.share(k), k.shape) for one in kinds])
        self._means = np.array([np.broadcast_to(one.mean(k), k.shape) for one in kinds])
        self._variances = np.array([np.broadcast_to(one.variance(k), k.shape) for one in kinds])

    def solved(self, wake: float, bound: int) -> BatchQueue | None:
        """None: this number of sizes is too small."""
        rate, size = self._rate, self._size
        states = np.arange(size + 1)
        taken = np.clip(states, 1, bound)
        left = np.maximum(states - taken, 0)
        first = _poisson(rate * wake, size)  # after sleep: one, and those who came meanwhile
        waiting = _stationary(self._matrix(taken, left, first))
        slept = float(waiting[0])
        if waiting[-max(1, size // 16) :].sum() > NEGLIGIBLE:
            return None
        warm = np.bincount(taken[1:] - 1, weights=waiting[1:], minlength=size)
        shares = np.concatenate([(self._shares * warm).ravel(), (self._shares * slept * first).ravel()])
        means = np.concatenate([self._means.ravel(), self._means.ravel() + self._cold])
        variances = np.tile(self._variances.ravel(), 2)
        seconds, squares = float(shares @ means), float(shares @ (variances + means**2))
        cycle = seconds + slept * (1 / rate + wake)
        behind = float((waiting[1:] * left[1:]) @ (self._shares * self._means).sum(axis=0)[taken[1:] - 1])
        # Little: the messages that wait, integrated over a cycle.
        integral = behind + rate * squares / 2 + slept * (wake + rate * wake**2 / 2)
        return BatchQueue(
            rate=rate,
            cycle=cycle,
            busy=seconds / cycle,
            slept=slept,
            wake=wake,
            waiting_mean=integral / (rate * cycle),
            left_behind=float(waiting[left > 0].sum()),
            _sizes=np.tile(np.arange(1.0, size + 1), 2 * len(self._means)),
            _shares=shares,
            _means=means,
            _variances=variances,
        )

    def _matrix(self, taken: NDArray[np.int64], left: NDArray[np.int64], first: Array) -> Array:
        size = self._size
        arrivals = self._mixed(0.0)
        matrix = np.zeros((size + 1, size + 1))
        if left.any():
            for n in range(1, size + 1):
                matrix[n, left[n] :] = arrivals[taken[n] - 1, : size + 1 - left[n]]
        else:
            matrix[1:] = arrivals
        matrix[0] = first @ self._mixed(self._cold)
        matrix[:, -1] += 1 - matrix.sum(axis=1)  # what is beyond counts as the largest
        return matrix

    def _mixed(self, cold: float) -> Array:
        """As `_arrivals`, of batches that take `cold` longer."""
        rows = zip(self._shares, self._means, self._variances, strict=True)
        parts = [share[:, None] * _arrivals(self._rate, mean + cold, var, self._size) for share, mean, var in rows]
        return np.asarray(sum(parts), dtype=np.float64)


def _arrivals(rate: float, means: Array, variances: Array, size: int) -> Array:
    """P(j messages come during a batch of k), a row for each k: Poisson, mixed by a Gamma-distributed time."""
    j, expected = np.arange(size + 1)[None, :], rate * means[:, None]
    fixed = variances <= (C_VAR_MIN * means) ** 2
    shape = np.where(fixed, 1.0, means**2 / np.where(fixed, 1.0, variances))[:, None]
    constant = special.xlogy(j, expected) - expected - special.gammaln(j + 1)
    if fixed.all():
        return np.asarray(np.exp(constant), dtype=np.float64)
    mixed = special.gammaln(j + shape) - special.gammaln(shape) - special.gammaln(j + 1)
    mixed += special.xlogy(j, expected / (shape + expected)) - shape * np.log1p(expected / shape)
    return np.asarray(np.exp(np.where(fixed[:, None], constant, mixed)), dtype=np.float64)


def _poisson(mean: float, size: int) -> Array:
    j = np.arange(size)
    return np.asarray(np.exp(special.xlogy(j, mean) - mean - special.gammaln(j + 1)), dtype=np.float64)


def _stationary(matrix: Array) -> Array:
    """π with πP = π: one equation says that it sums to 1."""
    size = len(matrix)
    system = matrix.T - np.eye(size)
    system[-1] = 1.0
    target = np.zeros(size)
    target[-1] = 1.0
    return np.asarray(np.maximum(np.linalg.solve(system, target), 0.0), dtype=np.float64)
