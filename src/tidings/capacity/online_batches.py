"""The batching broker's costs, estimated while it runs, and what they say (batch_costs.py, batching.py).

How many connections a
batch reaches follows from how many writes there were: of m receivers with probability p each, k messages reach
m·(1 − (1 − p)^k), and that, averaged over the sizes of batches, is solved for m. If messages come over many
connections, each read brings one of them, however many wait: then the broker serves them one by one. Which of the two
it is shows in the number of messages a read.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from tidings.capacity.arrays import Array, check_finite
from tidings.capacity.batch_costs import BatchCosts, BatchReceivers, BatchScenario, Work
from tidings.capacity.service import Moments, gamma_moments
from tidings.capacity.waiting import GammaWaiting
from tidings.errors import UsageError
from tidings.extras import lazy

if TYPE_CHECKING:
    from scipy import optimize
else:
    optimize = lazy("scipy.optimize")

RECEIVERS_MAX = 1e6
DOUBLINGS, HALVINGS = 40, 7  # of a search for the largest rate, good to a hundredth of it
SIZES_MAX = 256  # messages that may wait: a running broker has no time for more, and approximates
UNTOLD = ("E_LAB_OVERLOAD", "E_LAB_SIZES")  # beyond the limit, or so close to it that nothing can be said


@dataclass(frozen=True, slots=True)
class Outlook:
    """Prediction for one rate."""

    busy: float
    waiting_mean: float
    waiting_quantiles: tuple[tuple[float, float], ...]  # (probability, seconds)


@dataclass(frozen=True, slots=True)
class BatchServer:
    """A broker as it is now: what batches cost it, and whether waiting messages are taken together."""

    scenario: BatchScenario
    together: bool

    @property
    def alone(self) -> Moments:
        """Of the service of one message by itself."""
        one = np.array([1.0])
        mean = float(self.scenario.mean(one)[0])
        check_finite("the time a message takes", mean, 0, open_low=True)
        c_var = math.sqrt(float(self.scenario.variance(one)[0])) / mean
        return gamma_moments(mean, c_var)

    def outlook(self, rate: float, probabilities: Sequence[float]) -> Outlook:
        """Refuses what the broker cannot carry, and what is so close to that that nothing can be told (UNTOLD)."""
        if self.together:
            queue = self.scenario.queue(rate, SIZES_MAX)
            return Outlook(queue.busy, queue.waiting_mean, tuple((p, queue.quantile(p)) for p in probabilities))
        waiting = GammaWaiting.of(rate, self.alone)
        found = tuple((p, float(waiting.quantile(p))) for p in probabilities)
        return Outlook(float(waiting.rho), float(waiting.mean), found)

    def row(self, rate: float, sizes_max: int) -> Array:
        """The factors of FITTED for one message at this rate."""
        if self.together:
            return self.scenario.row(self.scenario.queue(rate, sizes_max))
        scenario = self.scenario
        reached = float(scenario.receivers.reached(np.ones(1))[0])
        grade = scenario.receivers.mean
        counts = [1.0, reached, 1.0, math.log2(1 + scenario.filters), grade, 0.0]
        return np.array([*counts, scenario.bytes_in, grade * scenario.bytes_out, scenario.stored])

    def capacity(self, utilisation: float) -> float:
        """Messages a second that keep it so busy."""
        if self.together:
            return self.scenario.rate_at(utilisation)
        return utilisation / float(self.alone.first)

    def rate_allowed(self, waiting_max: float, probability: float, rate_max: float = math.inf) -> float:
        """The largest rate, up to `rate_max`, at which the waiting time stays within the bound with this probability.

        Without the time to get warm again: it is spent by a broker that has nothing to do, and would turn away
        publishers because there are so few.
        """
        check_finite("waiting_max", waiting_max, 0, open_low=True)
        warm = replace(self, scenario=replace(self.scenario, costs=replace(self.scenario.costs, t_cold=0.0)))
        low, high = 0.0, min(rate_max, 0.1 / float(self.alone.first))
        for _ in range(DOUBLINGS):  # from below: the closer to the limit, the longer the analysis
            if not warm._within(high, waiting_max, probability):
                break
            if high >= rate_max:
                return rate_max
            low, high = high, min(2 * high, rate_max)
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            low, high = (middle, high) if warm._within(middle, waiting_max, probability) else (low, middle)
        return low

    def _within(self, rate: float, waiting_max: float, probability: float) -> bool:
        try:
            [(_, quantile)] = self.outlook(rate, (probability,)).waiting_quantiles
        except UsageError as error:
            if error.code not in UNTOLD:
                raise
            return False
        return quantile <= waiting_max


def server_seen(costs: BatchCosts, work: Work) -> BatchServer:
    """From what a broker did lately."""
    size, grade, reached = work.received / work.reads, work.delivered / work.received, work.writes / work.reads
    rate = work.received / work.seconds

    def scenario(receivers: float) -> BatchScenario:
        reached = BatchReceivers(receivers, min(1.0, grade / receivers))
        copy_bytes = work.bytes_out / work.delivered if work.delivered else 0.0
        each = work.received
        return BatchScenario(costs, work.filters, reached, work.bytes_in / each, copy_bytes, work.stored / each)

    def by_mean_size(receivers: float) -> float:
        return float(scenario(receivers).receivers.reached(np.array([size]))[0]) - reached

    def by_all_sizes(receivers: float) -> float:
        one = scenario(receivers)
        return one.queue(rate, SIZES_MAX).per_batch(one.receivers.reached) - reached

    first = scenario(_receivers(by_mean_size, grade))
    try:
        if abs(size - first.queue(rate, SIZES_MAX).batch_mean) > abs(size - 1.0):
            return BatchServer(first, together=False)
        return BatchServer(scenario(_receivers(by_all_sizes, grade)), together=True)
    except UsageError:  # more than fits: batches are as large as they get
        return BatchServer(first, together=size > 2)


def _receivers(excess: Callable[[float], float], grade: float) -> float:
    """As many as explain the connections that a batch reaches."""
    if grade <= 0:
        return 1.0
    low, high = grade, max(RECEIVERS_MAX, 2 * grade)
    if excess(low) >= 0:  # always the same ones
        return low
    if excess(high) <= 0:  # always others
        return high
    return math.exp(float(optimize.brentq(lambda log: excess(math.exp(log)), math.log(low), math.log(high), xtol=1e-3)))
