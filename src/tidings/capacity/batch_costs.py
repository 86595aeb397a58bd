"""Costs of a batch as a running broker estimates them from its own counters (`tidings.capacity.online`).

The model of the lab, which is calibrated from outside, is `tidings.capacity.cost_model`; this one has the terms that a
broker can tell apart by what it counts anyway.

A batch of k messages is one read, k times matching, a copy for every receiver, and one write to each connection that
gets any of them:

    S(k) = t_batch + d(k)·t_write
         + k·(t_rcv + b_in·t_byte_in + log2(1 + n)·t_fltr + E[R]·(t_tx + b_out·t_byte_out) + s·t_stored)

with b_in and b_out the bytes of a message as it comes and of a copy as it goes, s the records it leaves in the store,
and d(k) the connections that k messages reach: of m subscribers that each match with probability p, m·(1 − (1 − p)^k).
A batch after which nothing waits lets the broker sleep; the next one takes t_cold longer. The broker counts reads,
writes, messages and copies, the system its sleeps and its CPU time, and that is linear in the parameters. t_wake, the
time from a message's arrival to its batch if the broker slept, costs no CPU time; it is measured (paced.py).

>>> costs = BatchCosts(t_batch=30e-6, t_write=5e-6, t_rcv=3e-7, t_fltr=0.0, t_tx=5e-8)
>>> scenario = BatchScenario(costs, filters=100, receivers=BatchReceivers(subscribers=100, match_probability=0.1))
>>> queue = scenario.queue(10_000.0)
>>> round(queue.busy, 2), round(queue.batch_mean, 2), f"{queue.waiting_mean * 1e6:.0f} us"
(0.71, 1.37, '39 us')
>>> round(scenario.capacity)  # saturated
1250000
"""

import math
from dataclasses import dataclass, fields, replace

import numpy as np

from tidings.capacity.arrays import Array, check_finite, check_probability
from tidings.capacity.batch_fluid import queue_of
from tidings.capacity.batching import SIZES_MAX, BatchQueue, capacity, rate_at

FITTED = ("t_batch", "t_write", "t_rcv", "t_fltr", "t_tx", "t_cold", "t_byte_in", "t_byte_out", "t_stored")


@dataclass(frozen=True, slots=True)
class Work:
    """The work of a broker in an interval: counts, CPU time and duration."""

    seconds: float
    cpu_s: float
    reads: float
    writes: float
    received: float
    delivered: float
    filters: float  # installed
    sleeps: float
    bytes_in: float = 0.0
    bytes_out: float = 0.0
    stored: float = 0.0  # records

    @property
    def row(self) -> list[float]:
        """The factors of FITTED."""
        filtering = self.received * math.log2(1 + self.filters)
        counts = [self.reads, self.writes, self.received, filtering, self.delivered, self.sleeps]
        return [*counts, self.bytes_in, self.bytes_out, self.stored]


@dataclass(frozen=True, slots=True)
class BatchCosts:
    """In seconds."""

    t_batch: float
    t_write: float
    t_rcv: float
    t_fltr: float
    t_tx: float
    t_cold: float = 0.0
    t_wake: float = 0.0
    t_byte_in: float = 0.0
    t_byte_out: float = 0.0
    t_stored: float = 0.0

    def __post_init__(self) -> None:
        for one in fields(self):
            check_finite(one.name, getattr(self, one.name), 0)

    def cpu_s(self, work: Work) -> float:
        """Predicted CPU time of this work."""
        return sum(factor * float(getattr(self, name)) for factor, name in zip(work.row, FITTED, strict=True))


@dataclass(frozen=True, slots=True)
class BatchReceivers:
    """Receivers of a message: `always` get each one, the others match independently with the same probability."""

    subscribers: float
    match_probability: float
    always: float = 0.0

    def __post_init__(self) -> None:
        check_finite("subscribers", self.subscribers, 0)
        check_finite("always", self.always, 0)
        check_probability("match_probability", self.match_probability)

    @property
    def mean(self) -> float:
        return self.always + self.subscribers * self.match_probability

    @property
    def variance(self) -> float:
        return self.subscribers * self.match_probability * (1 - self.match_probability)

    def reached(self, k: Array) -> Array:
        """d(k): those who get at least one of k messages, on average."""
        return self.always + self.subscribers * (1 - (1 - self.match_probability) ** k)

    def reached_variance(self, k: Array) -> Array:
        missed = (1 - self.match_probability) ** k
        return self.subscribers * missed * (1 - missed)


@dataclass(frozen=True, slots=True)
class BatchScenario:
    """A broker, and what it has to do per message."""

    costs: BatchCosts
    filters: float
    receivers: BatchReceivers
    bytes_in: float = 0.0  # of a message
    bytes_out: float = 0.0  # of a copy
    stored: float = 0.0  # records of a message

    def mean(self, k: Array) -> Array:
        costs = self.costs
        message = costs.t_rcv + self.bytes_in * costs.t_byte_in + math.log2(1 + self.filters) * costs.t_fltr
        message += self.receivers.mean * self._copy_s + self.stored * costs.t_stored
        return costs.t_batch + self.receivers.reached(k) * costs.t_write + k * message

    def variance(self, k: Array) -> Array:
        costs, receivers = self.costs, self.receivers
        return receivers.reached_variance(k) * costs.t_write**2 + k * receivers.variance * self._copy_s**2

    @property
    def _copy_s(self) -> float:
        return self.costs.t_tx + self.bytes_out * self.costs.t_byte_out

    def row(self, queue: BatchQueue) -> Array:
        """The factors of FITTED for one message of this queue."""
        size, grade = queue.batch_mean, self.receivers.mean
        reached = queue.per_batch(self.receivers.reached)
        counts = [1 / size, reached / size, 1.0, math.log2(1 + self.filters), grade, queue.slept / size]
        return np.array([*counts, self.bytes_in, grade * self.bytes_out, self.stored])

    @property
    def capacity(self) -> float:
        """Messages a second at saturation."""
        return capacity(self.mean)

    def queue(self, rate: float, sizes_max: int = SIZES_MAX) -> BatchQueue:
        """Approximated where more than `sizes_max` messages wait."""
        costs = self.costs
        return queue_of(rate, self.mean, self.variance, wake=costs.t_wake, cold=costs.t_cold, sizes_max=sizes_max)

    def rate_at(self, busy: float) -> float:
        """Messages a second that keep the broker busy for this share of the time."""
        return rate_at(busy, self.queue, self.capacity)


def costs_of(values: Array) -> BatchCosts:
    """From values in the order of FITTED.

    Where every batch came after a sleep, nobody can tell t_cold from t_batch, and a fit may put all into t_cold. Then a
    batch of a busy broker would cost nothing, and its capacity would be without limit.
    """
    found = BatchCosts(**dict(zip(FITTED, values.tolist(), strict=True)))
    return replace(found, t_batch=found.t_cold, t_cold=0.0) if not np.any(values[: FITTED.index("t_cold")]) else found
