"""A single-server queue, simulated by Lindley's recursion: a check on every formula of this package.

W ← max(W + B − A, 0), without a loop: with S the running sum of B − A, the waiting times are S less its
running minimum. The generator is an argument, so a seed repeats a run.

>>> run = simulate(np.random.default_rng(1), 0.5, lambda rng, size: rng.exponential(1.0, size), messages=200_000)
>>> abs(run.mean - 1.0) < 5 * run.mean_error  # M/M/1 at ρ = 0.5
True
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from tidings.capacity.arrays import Array, check_finite, refuse

BATCHES = 20  # for standard errors; waiting times of neighbours are correlated, means of long batches hardly


@dataclass(frozen=True, slots=True)
class QueueRun:
    waiting: Array = field(repr=False)  # of each message, in order of arrival, after the warm-up
    utilisation: float

    @property
    def mean(self) -> float:
        return float(self.waiting.mean())

    @property
    def mean_error(self) -> float:
        """Standard error of the mean, by batch means."""
        return self._error(lambda batch: float(batch.mean()))

    def tail(self, t: float) -> float:
        """The share of messages that waited longer than t."""
        return float((self.waiting > t).mean())

    def tail_error(self, t: float) -> float:
        """Standard error of the tail, by batch means."""
        return self._error(lambda batch: float((batch > t).mean()))

    def quantile(self, p: float) -> float:
        return float(np.quantile(self.waiting, p))

    def quantile_error(self, p: float) -> float:
        """Standard error of the quantile: that of the tail there, divided by the density.

        Not the spread of the batches' own quantiles: few messages exceed a high quantile, and those come in clusters,
        so most batches have never seen it. The density is that of the exponential through two quantiles of the tail.
        """
        half, full = np.quantile(self.waiting, [max(2 * p - 1, 0.0), p])
        return float(self.tail_error(float(full)) / (1 - p) * (full - half) / np.log(2))

    def _error(self, statistic: Callable[[Array], float]) -> float:
        values = [statistic(batch) for batch in np.array_split(self.waiting, BATCHES)]
        return float(np.std(values, ddof=1) / np.sqrt(BATCHES))


def simulate(
    rng: np.random.Generator,
    rate: float,
    service: Callable[[np.random.Generator, int], Array],
    messages: int,
    warm_up: int = 0,
) -> QueueRun:
    """The waiting times of `messages` Poisson arrivals after `warm_up` others, from an empty server."""
    check_finite("rate", rate, 0, open_low=True)
    check_finite("messages", messages, BATCHES)
    check_finite("warm_up", warm_up, 0)
    total = messages + warm_up
    busy = np.asarray(service(rng, total), dtype=np.float64)
    if busy.shape != (total,) or not bool(np.all(busy >= 0)):
        raise refuse("`draw` must return the requested number of service times, none of them negative")
    gaps = rng.exponential(1 / rate, total)
    walk = np.concatenate([[0.0], np.cumsum(busy[:-1] - gaps[1:])])
    waiting = walk - np.minimum.accumulate(walk)
    return QueueRun(waiting[warm_up:], float(busy.sum() / gaps.sum()))
