"""The cost of a message as calibrated on a broker, and what follows: capacity, utilisation and waiting time.

`BrokerCosts` holds the values of `tidings.capacity.traffic.TERMS` for one protocol, with their covariance, the domain
(what was varied, and how far) and the errors at points held out. From it a turn of k messages takes

    S(k) = once(k) + k·each     (a mixture of two kinds: with receivers and without)

and the broker is the queue of `tidings.capacity.batching`, whose server takes all that waits. At saturation k is what
its clients keep in flight, if they are fast enough. Clients that take longer over a message than the broker does are
what saturates: then turns become so small that a message costs the broker as much as them (`BrokerCosts.turn`; `client`
has the costs of those clients that the calibration was made with). The closed forms of the
thesis are special cases: `closed_form` gives the one of `processing.MODELS` that has the same cost at an operating
point, and with one message in flight (k = 1) the queue is M/GI/1.

>>> from tidings.capacity.traffic import Interests
>>> values = {"turn": 10e-6, "read": 2e-6, "write": 4e-6, "message": 1e-6, "copy": 2e-7}
>>> costs = BrokerCosts.of(values, share=1.0)
>>> traffic = Traffic(interests=Interests(10, 1.0), filters=10)
>>> [round(1 / costs.cost(replace(traffic, in_flight=w))) for w in (1, 500)]
[18182, 322165]
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from tidings.capacity.arrays import Array, check_finite, refuse
from tidings.capacity.batch_fluid import queue_of
from tidings.capacity.batching import BatchKind, BatchQueue, always, capacity, mixed, rate_at
from tidings.capacity.processing import Errors, Fitted
from tidings.capacity.traffic import CLIENT_TERMS, DOMAIN, OF_RECEIVERS, TERMS, Traffic, client_row, row, seconds_of

Z_95 = 1.96
_FIXED = tuple(name for name in TERMS if name not in OF_RECEIVERS)
_HIT_MIN = 1e-12  # a batch without receivers is not rarer
HALVINGS = 20
ENDLESS = 1e6  # messages in flight of each publisher, if publishers wait for nothing


@dataclass(frozen=True, slots=True)
class BrokerCosts:
    """Of one protocol. In seconds. `share`: of what is in flight, taken in one turn at saturation."""

    values: tuple[float, ...]
    share: float
    domain: Mapping[str, tuple[float, float]]
    persistent: tuple[bool, ...] = (False, True)  # those that were measured
    covariance: tuple[tuple[float, ...], ...] = ()
    wake: float = 0.0  # from a message's arrival to its turn, if the broker slept; no CPU time
    points: int = 0
    errors: Errors | None = None
    held_out: Errors | None = None
    excluded: tuple[str, ...] = ()  # measured points that the fit leaves out, each with the reason
    client: tuple[float, ...] = ()  # of CLIENT_TERMS: the clients of the calibration; empty: faster than any broker

    def __post_init__(self) -> None:
        if len(self.values) != len(TERMS):
            raise refuse(f"costs need {len(TERMS)} values, not {len(self.values)}")
        for name, value in zip(TERMS, self.values, strict=True):
            check_finite(name, value, 0)
        if len(self.client) not in (0, len(CLIENT_TERMS)):
            raise refuse(f"costs of clients need {len(CLIENT_TERMS)} values, not {len(self.client)}")
        check_finite("share", self.share, 0, 1)
        check_finite("wake", self.wake, 0)
        unknown = set(self.domain) - set(DOMAIN)
        if unknown:
            raise refuse(f"unknown in the domain: {', '.join(sorted(unknown))}")

    @classmethod
    def of(cls, values: Mapping[str, float], share: float) -> "BrokerCosts":
        """Given, not measured: without domain and errors."""
        if set(values) - set(TERMS):
            raise refuse(f"unknown terms: {', '.join(sorted(set(values) - set(TERMS)))}")
        return cls(tuple(float(values.get(name, 0.0)) for name in TERMS), share, {})

    @property
    def parameters(self) -> dict[str, float]:
        return dict(zip(TERMS, self.values, strict=True))

    def turn(self, traffic: Traffic) -> float:
        """k at saturation: of what is in flight, or of clients that are slower than the broker."""
        most = traffic.turn_size(self.share)
        if not self.client or traffic.persistent or self._ahead(traffic, most) >= 0:
            return most
        low, high = 0.0, float(np.log(most))
        if self._ahead(traffic, 1.0) <= 0:
            return 1.0
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            low, high = (middle, high) if self._ahead(traffic, float(np.exp(middle))) > 0 else (low, middle)
        return float(np.exp(low))

    def _ahead(self, traffic: Traffic, k: float) -> float:
        """By how much longer the broker takes over a message than its clients do."""
        return float(row(traffic, k) @ np.array(self.values) - client_row(traffic, k) @ np.array(self.client))

    @property
    def fast_clients(self) -> "BrokerCosts":
        """The same broker, whose clients never make it wait."""
        return replace(self, client=())

    def cost(self, traffic: Traffic) -> float:
        """CPU seconds of a message at saturation with this number of messages in flight."""
        return float(row(traffic, self.turn(traffic)) @ np.array(self.values))

    def error(self, traffic: Traffic) -> float:
        """Relative: half the width of the 95 % interval of a cost, from the fit's and that of points held out."""
        factors = row(traffic, self.turn(traffic))
        own = 0.0
        if self.covariance:
            own = float(np.sqrt(max(0.0, factors @ np.array(self.covariance) @ factors))) / self.cost(traffic)
        return Z_95 * float(np.hypot(own, self.held_out.rms if self.held_out else 0.0))

    def outside(self, traffic: Traffic) -> tuple[str, ...]:
        """Describes in what the traffic lies beyond what was measured."""
        found = [
            f"{name} {getattr(traffic, name):,.6g} (measured: {low:,.6g} to {high:,.6g})"
            for name, (low, high) in self.domain.items()
            if not low <= getattr(traffic, name) <= high
        ]
        if traffic.persistent not in self.persistent:
            found.append(f"{'persistent' if traffic.persistent else 'non-persistent'} messages (none measured)")
        return tuple(found)

    def scaled(self, factor: float) -> "BrokerCosts":
        """With clients that are dearer by as much, so that turns are of the same size."""
        values, client = (tuple(value * factor for value in part) for part in (self.values, self.client))
        return replace(self, values=values, client=client)

    def queue(self, traffic: Traffic, rate: float) -> BatchQueue:
        """Poisson arrivals at this rate, of publishers that wait for nothing. Refuses what the broker cannot carry
        (E_LAB_OVERLOAD)."""
        kinds = self._kinds(replace(traffic, in_flight=ENDLESS * traffic.publishers))
        return queue_of(rate, *mixed(kinds), wake=self.wake, kinds=kinds)

    def capacity(self, traffic: Traffic) -> float:
        """Messages a second at saturation, of publishers that never wait."""
        return capacity(mixed(self._kinds(replace(traffic, in_flight=ENDLESS * traffic.publishers)))[0])

    def rate_at(self, traffic: Traffic, busy: float) -> float:
        return rate_at(busy, lambda rate: self.queue(traffic, rate), self.capacity(traffic))

    def closed_form(self, traffic: Traffic) -> Fitted:
        """The thesis's model with the same cost at this operating point: t_rcv without receivers, t_tx for each."""
        k = np.array([self.turn(traffic)])
        fixed = float(seconds_of(traffic, self.values, k, _FIXED)[0] / k[0])
        sent = float(seconds_of(traffic, self.values, k, OF_RECEIVERS)[0] / k[0])
        copy = sent / traffic.receivers if traffic.receivers > 0 else 0.0
        return Fitted.of("constant", t_rcv=fixed, t_tx=copy)

    def _kinds(self, traffic: Traffic) -> tuple[BatchKind, ...]:
        """Of turns in which nobody gets anything but those who get everything, and others."""
        values, each, write = self.values, self._copy(traffic), self._write(traffic)
        interests = traffic.interests.varying
        sure, unsure = (replace(traffic, interests=one) for one in (traffic.interests.constant, interests))

        def none(k: Array) -> Array:
            return np.asarray(interests.nobody**k, dtype=np.float64)

        def some(k: Array) -> Array:
            return 1 - none(k)

        def fixed(k: Array) -> Array:
            return seconds_of(sure, values, k)

        def mean(k: Array) -> Array:
            return fixed(k) + seconds_of(unsure, values, k, OF_RECEIVERS) / np.maximum(some(k), _HIT_MIN)

        def variance(k: Array) -> Array:
            """Of copies and writes, which vary together."""
            hit = np.maximum(some(k), _HIT_MIN)
            copies = _given(k * interests.mean, k * interests.variance, hit)
            writes = _given(unsure.writes(k), _write_variance(unsure, k), hit)
            return np.asarray((np.sqrt(copies) * each + np.sqrt(writes) * write) ** 2)

        if interests.mean <= 0:
            return (BatchKind(always, fixed),)
        served = BatchKind(some, mean, variance)
        return (served,) if interests.nobody < _HIT_MIN else (BatchKind(none, fixed), served)

    def _copy(self, traffic: Traffic) -> float:
        """One copy, without the write that it goes out in."""
        found = self.parameters
        each = found["copy"] + traffic.body * found["copy_body"] + traffic.properties * found["copy_property"]
        return each + traffic.persistent * found["acknowledged"]

    def _write(self, traffic: Traffic) -> float:
        """One write, with the acknowledgement that it brings."""
        return self.parameters["write"] + traffic.persistent * self.parameters["answer"]


def _given(mean: Array, variance: Array, probability: Array) -> Array:
    """The variance of a number that is 0 but with this probability, where it is not."""
    return np.asarray(np.maximum((variance + mean**2) / probability - (mean / probability) ** 2, 0.0))


def _write_variance(traffic: Traffic, k: Array) -> Array:
    """Of writes, which are those of reads that bring as many messages each."""
    interests = traffic.interests
    missed = 1 - interests.reached(traffic.read_size(k)) / interests.subscribers
    each = interests.subscribers * missed * (1 - missed)
    return np.asarray(traffic.reads(k) * each * (interests.subscribers if interests.together else 1), dtype=np.float64)
