"""The costs of a running broker, estimated from its counters, and what they say about its load and its limits.

Two memories. The *load* (rate, utilisation, receivers, sizes) is that of the last `WINDOW_S` seconds: a step is seen
completely after that time. The *costs* (batch_costs.py, and what the broker needs when nobody does anything) come from
a regression in which an interval counts e^(−age/`MEMORY_S`) (less if several in a row show that costs have changed), in
proportion to how exactly it was measured and not to how many messages it had: a flood of small messages tells no more
than a second of large ones.

Nothing is said without support. Whatever is predicted has a standard error, from the regression and from `MODEL_ERROR`,
what the model itself is off by; a prediction is `narrow` if twice that is within `NARROW` of it. A broker that has seen
nothing but quiet knows its load, and not its capacity.

>>> from tidings.capacity.batch_costs import Work
>>> estimator = Estimator()
>>> for second in range(60):
...     k = 1 + 10 * (second % 6)  # messages a read
...     work = Work(1.0, 0.0, 2000, 2000, 2000 * k, 2000 * k, 10, 0, bytes_in=2e5 * k, bytes_out=2e5 * k)
...     estimator.observe(second, replace(work, cpu_s=2000 * (4e-5 + 2e-6 * k)))
>>> found = estimator.snapshot()
>>> found.service.narrow, f"{found.service.value:.1e}", round(found.utilisation, 2)
(True, '2.9e-06', 0.24)
"""

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from tidings.capacity.arrays import Array, check_finite, refuse
from tidings.capacity.batch_costs import FITTED, BatchCosts, BatchReceivers, BatchScenario, Work, costs_of
from tidings.capacity.online_batches import SIZES_MAX, BatchServer, server_seen
from tidings.capacity.recursive_fit import FadingFit
from tidings.errors import UsageError

WINDOW_S = 3.0
MEMORY_S = 300.0
NARROW = 0.25  # of a value: twice its standard error, below which it is published
MODEL_ERROR = 0.05
NOISE, NOISE_S = 0.1, 0.002  # of the processor time of an interval: relative, and absolute for a second
UTILISATION_MAX = 0.9
# Where the costs lie before anything was measured, in seconds: of a processor of these years, and off by a factor.
TYPICAL = dict(
    zip(FITTED, (1.5e-5, 5e-6, 5e-7, 2e-8, 1e-7, 1e-5, 3e-10, 3e-10, 5e-5), strict=True),
)
IDLE_S, IDLE_SPREAD_S = 3e-3, 1.5e-3  # a second, of a broker with nothing to do
SURPRISE, SURPRISED_INTERVALS, FORGET = 6.0, 5, 0.7  # where costs have changed, what was learnt before fades at once
SPREAD = 2.0  # standard deviation of the prior, in units of its mean


@dataclass(frozen=True, slots=True)
class CostEstimate:
    value: float
    error: float  # standard error

    @property
    def narrow(self) -> bool:
        return self.value > 0 and 2 * self.error <= NARROW * self.value

    @property
    def interval(self) -> tuple[float, float]:
        """Covers the true value with 95 % probability, as far as the model is right."""
        return max(0.0, self.value - 2 * self.error), self.value + 2 * self.error


@dataclass(frozen=True, slots=True)
class PresentLoad:
    """Properties of messages, when there last were any."""

    filters: float
    subscribers: float
    match: float  # the probability that a message matches one of them
    bytes_in: float  # of a message
    bytes_out: float  # of a copy
    stored: float  # records of a message
    together: bool  # messages that wait are read together

    @classmethod
    def of(cls, server: BatchServer) -> "PresentLoad":
        one = server.scenario
        receivers = one.receivers
        match = receivers.match_probability
        return cls(one.filters, receivers.subscribers, match, one.bytes_in, one.bytes_out, one.stored, server.together)

    @classmethod
    def from_values(cls, values: Mapping[str, float]) -> "PresentLoad":
        """From numbers by name, as a broker publishes them; a KeyError if one is missing."""
        names = ("filters", "subscribers", "match", "bytes_in", "bytes_out", "stored")
        filters, subscribers, match, bytes_in, bytes_out, stored = (values[name] for name in names)
        together = bool(values["together"])
        return cls(filters, subscribers, match, bytes_in, bytes_out, stored, together)

    def server(self, costs: BatchCosts) -> BatchServer:
        receivers = BatchReceivers(self.subscribers, self.match)
        return BatchServer(
            BatchScenario(costs, self.filters, receivers, self.bytes_in, self.bytes_out, self.stored),
            together=self.together,
        )


@dataclass(frozen=True, slots=True)
class OnlineSnapshot:
    """The broker's estimates at one time."""

    rate: float  # received messages a second, lately
    utilisation: float  # measured, lately
    replication: float  # receivers of a message, when there last were messages
    costs: BatchCosts
    load: PresentLoad
    service: CostEstimate  # processor time of one message, as the load is
    capacity: CostEstimate  # messages a second at UTILISATION_MAX
    waiting_mean: float | None  # None: not narrow, saturated or idle
    waiting_quantiles: tuple[tuple[float, float], ...]  # (probability, seconds)

    @property
    def narrow(self) -> bool:
        return self.capacity.narrow and self.service.narrow


class Estimator:
    """Counters in, snapshots out; the time is an argument and must not go backwards."""

    def __init__(self) -> None:
        prior = np.array([*TYPICAL.values(), IDLE_S])
        self._fit = FadingFit(prior, np.append(SPREAD * prior[:-1], IDLE_SPREAD_S))
        self._surprise = 0.0  # mean square of how far predictions were off, lately
        self._window: deque[Work] = deque()
        self._last: Work | None = None  # the last window with messages
        self._now = -math.inf

    def observe(self, now: float, work: Work) -> None:
        """Take in what was done in the interval that ends now."""
        if not math.isfinite(now) or now < self._now:
            raise refuse(f"time {now} lies before {self._now}")
        check_finite("seconds", work.seconds, 0, open_low=True)
        check_finite("cpu_s", work.cpu_s, 0)
        if math.isfinite(self._now):
            self._fit.fade(math.exp((self._now - now) / MEMORY_S))
        self._now = now
        noise = math.hypot(NOISE * work.cpu_s, NOISE_S * math.sqrt(work.seconds))
        off = self._fit.learn(np.array([*work.row, work.seconds]), work.cpu_s, noise)
        self._surprise += (min(off**2, 2 * SURPRISE) - self._surprise) / SURPRISED_INTERVALS
        if self._surprise > SURPRISE:
            self._fit.fade(FORGET)
        self._window.append(work)
        while sum(one.seconds for one in self._window) - self._window[0].seconds >= WINDOW_S:
            self._window.popleft()
        recent = self.recent
        if recent.received > 0 and recent.reads > 0:
            self._last = recent

    @property
    def recent(self) -> Work:
        """The work of the last WINDOW_S seconds."""
        sums = {one.name: sum(getattr(work, one.name) for work in self._window) for one in fields(Work)}
        return Work(**sums | {"filters": self._window[-1].filters}) if self._window else Work(*[0.0] * 8)

    def snapshot(self, probabilities: Sequence[float] = (0.99, 0.9999)) -> OnlineSnapshot:
        recent, load = self.recent, self._load()
        costs = costs_of(self._fit.values[:-1])
        row = np.array(load.row) / load.received
        service = self._estimate(row)
        capacity, server = self._capacity(costs, load)
        found = OnlineSnapshot(
            rate=recent.received / recent.seconds,
            utilisation=recent.cpu_s / recent.seconds,
            replication=load.delivered / load.received,
            costs=costs,
            load=PresentLoad.of(server),
            service=service,
            capacity=capacity,
            waiting_mean=None,
            waiting_quantiles=(),
        )
        if not found.narrow or not recent.received:
            return found
        try:
            outlook = server.outlook(found.rate, probabilities)
        except UsageError:  # saturated
            return found
        return replace(found, waiting_mean=outlook.waiting_mean, waiting_quantiles=outlook.waiting_quantiles)

    def rate_allowed(self, waiting_max: float, probability: float) -> float | None:
        """The largest rate at which the waiting time stays within the bound with this probability, as the load is; None
        while that is not known. At most twice the present rate: more is not needed now, and takes longer to find."""
        load = self._load()
        capacity, server = self._capacity(costs_of(self._fit.values[:-1]), load)
        if not capacity.narrow:
            return None
        present = load.received / load.seconds
        return server.rate_allowed(waiting_max, probability, max(2 * present, 0.1 / float(server.alone.first)))

    def _load(self) -> Work:
        if self._last is None:
            raise refuse("no message was observed yet", "E_LAB_NOTHING_SEEN")
        return self._last

    def _estimate(self, row: Array) -> CostEstimate:
        """Of the processor time of one message with these factors."""
        full = np.append(row, 0.0)  # what the broker needs when idle is nobody's
        value = float(full @ self._fit.values)
        return CostEstimate(value, math.hypot(self._fit.error(full), MODEL_ERROR * value))

    def _capacity(self, costs: BatchCosts, load: Work) -> tuple[CostEstimate, BatchServer]:
        """A message at the limit costs less than now, as batches are larger there: that is what makes the error."""
        server = server_seen(costs, load)
        if server.scenario.mean(np.ones(1))[0] <= 0:
            return CostEstimate(0.0, math.inf), server
        try:
            rate = server.capacity(UTILISATION_MAX)
            row = server.row(rate, SIZES_MAX)
        except UsageError:
            return CostEstimate(0.0, math.inf), server
        each = self._estimate(row)
        return CostEstimate(rate, rate * each.error / each.value if each.value else math.inf), server
