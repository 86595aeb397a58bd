"""Traffic of a broker: messages, receivers and connections, and what they multiply in the cost of a message.

A broker works in turns. In a turn it takes what waits, k messages: it reads from every connection that some of them
came over, at most READ_BYTES at a time, and matches what it read. What a small read (less than SMALL_READ_BYTES) has
for subscribers is written at once, one write to each of them; that of large reads is gathered until the turn ends or
FLUSH_BYTES are waiting. So a message costs

    c(k) = (t_turn + reads(k)·t_read + writes(k)·t_write)/k + what it costs wherever it is in the turn

with reads(k) = P·(1 − C(W − W/P, k)/C(W, k)): over which of P publishing connections k of W messages in flight come, if
each has as many; and writes(k) = reads(k)·d(k/reads(k)) or d(k), with d(j) the receivers that j messages reach. `TERMS`
lists all factors; the table is the model, as `tidings.capacity.processing.MODELS` is that of the thesis. Messages in
flight matter because they decide k: a broker that its publishers keep busy finds all of them waiting when its turn
begins (`turn_size`); of persistent ones half, for the others are being committed meanwhile.

Receivers of one message need not be independent of each other (`Interests`): with all-or-none interests a turn costs
little or much and nothing between, so it is a mixture (`Interests.nobody`) and not its mean.

>>> alone, many = (Traffic(interests=Interests(10, 1.0), publishers=p, in_flight=100) for p in (1, 20))
>>> [[round(float(one.reads(np.array([k]))[0]), 2) for k in (1.0, 10.0, 100.0)] for one in (alone, many)]
[[1.0, 1.0, 1.0], [1.0, 8.32, 20.0]]
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from tidings.capacity.arrays import Array, check_finite, check_probability, refuse
from tidings.extras import lazy

if TYPE_CHECKING:
    from scipy import special
else:
    special = lazy("scipy.special")

HEADER_BYTES = 70.0  # of a message besides body and properties: frame, id, destination
PROPERTY_BYTES = 14.0
READ_BYTES = float(1 << 16)  # of one read: the event loop's buffer
SMALL_READ_BYTES = 2048.0  # as in broker/tuning/read_moderation.py
FLUSH_BYTES = float(1 << 20)  # as in broker/connections/output_flush.py
SMALL_EXPONENT = 3.0  # how sharply reads around SMALL_READ_BYTES part into small and large ones
CACHE_BYTES = 4e6  # copies of one turn that are larger than this are written to memory and read again
PIPELINED = 0.5  # of the persistent messages in flight: those that the broker takes while others are committed


@dataclass(frozen=True, slots=True)
class Interests:
    """Subscribers of which a message has each as receiver with probability `match`.

    Independently of each other; or `together`: all of them or none; or by measured `grades`: the shares of messages
    that had 0, 1, 2 … receivers, where any subscribers of that number are equally likely to be these.
    """

    subscribers: float
    match: float
    together: bool = False
    grades: tuple[float, ...] = ()
    always: float = 0.0  # more subscribers, who get every message

    def __post_init__(self) -> None:
        check_finite("subscribers", self.subscribers, 0)
        check_finite("always", self.always, 0)
        check_probability("match", self.match)
        check_finite("grades", np.array(self.grades or (0.0,)), 0)
        if self.grades and sum(self.grades) <= 0:
            raise refuse("measured grades need at least one message")
        if len(self.grades) > self.subscribers + 1:
            raise refuse(f"grades up to {len(self.grades) - 1} cannot be those of {self.subscribers:g} subscribers")

    @property
    def _shares(self) -> Array:
        shares = np.array(self.grades, dtype=np.float64)
        return np.asarray(shares / shares.sum(), dtype=np.float64)

    @property
    def mean(self) -> float:
        """Receivers of a message."""
        if self.grades:
            return self.always + float(self._shares @ np.arange(len(self.grades)))
        return self.always + self.subscribers * self.match

    @property
    def varying(self) -> "Interests":
        """Without those who get every message."""
        return replace(self, always=0.0)

    @property
    def constant(self) -> "Interests":
        """Only those."""
        return Interests(0, 0.0, always=self.always)

    @property
    def variance(self) -> float:
        if self.grades:
            return float(self._shares @ np.arange(len(self.grades)) ** 2) - self.varying.mean**2
        spread = self.match * (1 - self.match)
        return spread * (self.subscribers**2 if self.together else self.subscribers)

    @property
    def nobody(self) -> float:
        """Probability that a message has no receiver but those who get every message."""
        if self.grades:
            return float(self._shares[0])
        return 1 - self.match if self.together else float((1 - self.match) ** self.subscribers)

    def reached(self, k: Array) -> Array:
        """d(k): receivers of at least one of k messages, on average."""
        return np.asarray(self.always + self.subscribers * (1 - (1 - self._match) ** k), dtype=np.float64)

    def divided(self, parts: float) -> "Interests":
        """Those of one of several brokers that have a share of the subscribers each; of grades the mean is kept."""
        return Interests(self.subscribers / parts, self._match, self.together, always=self.always / parts)

    @property
    def _match(self) -> float:
        return self.varying.mean / self.subscribers if self.grades and self.subscribers > 0 else self.match


@dataclass(frozen=True, slots=True)
class Traffic:
    """The load of a broker but for its rate.

    `in_flight`: messages of all publishers together that were sent and have not arrived or been confirmed.
    """

    protocol: str = "native"
    persistent: bool = False
    body: float = 0.0  # bytes
    properties: float = 0.0
    filters: float = 0.0  # installed, of all subscribers
    components: float = 1.0  # comparisons in a filter
    interests: Interests = Interests(1, 1.0)
    publishers: float = 1.0
    in_flight: float = 1.0

    def __post_init__(self) -> None:
        for name in ("body", "properties", "filters", "components"):
            check_finite(name, getattr(self, name), 0)
        check_finite("publishers", self.publishers, 1)
        check_finite("in_flight", self.in_flight, 1)

    @property
    def receivers(self) -> float:
        return self.interests.mean

    @property
    def size(self) -> float:
        """Bytes of a message on a connection, roughly: protocols differ in their headers."""
        return HEADER_BYTES + self.properties * PROPERTY_BYTES + self.body

    def reads(self, k: Array) -> Array:
        """From publishers, for k of the messages in flight, on average."""
        flight, k = max(self.in_flight, self.publishers), np.asarray(k, dtype=np.float64)
        left = flight - flight / self.publishers  # of the others
        inside = np.minimum(k, left)
        missed = special.gammaln(left + 1) - special.gammaln(left - inside + 1)
        missed += special.gammaln(flight - inside + 1) - special.gammaln(flight + 1)
        connections = self.publishers * (1 - np.where(k <= left, np.exp(missed), 0.0))
        return np.asarray(np.maximum(connections, k * self.size / READ_BYTES), dtype=np.float64)

    def writes(self, k: Array) -> Array:
        """Writes to subscribers for k messages, on average."""
        if self.persistent:
            return self.interests.reached(k)
        reads = self.reads(k)
        flushes = np.clip(k * self.receivers * self.size / FLUSH_BYTES, 1.0, np.maximum(reads, 1.0))
        at_once, gathered = (
            reads * self.interests.reached(self.read_size(k)),
            flushes * self.interests.reached(k / flushes),
        )
        small = self.small_reads(k)
        return np.asarray(small * at_once + (1 - small) * np.minimum(at_once, gathered), dtype=np.float64)

    def read_size(self, k: Array) -> Array:
        """Messages that a read brings, of k in a turn."""
        reads = self.reads(k)
        return np.asarray(k / np.where(reads > 0, reads, 1.0), dtype=np.float64)

    def small_reads(self, k: Array) -> Array:
        """The share of reads whose output is written at once."""
        return np.asarray(
            1 / (1 + (self.read_size(k) * self.size / SMALL_READ_BYTES) ** SMALL_EXPONENT), dtype=np.float64
        )

    def cold_bytes(self, k: Array) -> Array:
        """Bytes of the bodies in k messages' copies that do not stay in the processor's cache."""
        sent = np.asarray(k, dtype=np.float64) * self.receivers * self.body
        return np.asarray(sent**2 / (sent + CACHE_BYTES), dtype=np.float64)

    def turn_size(self, share: float) -> float:
        """k of a saturated broker that takes this share of what is in flight together."""
        return 1 + (PIPELINED if self.persistent else share) * (self.in_flight - 1)


@dataclass(frozen=True, slots=True)
class CostTerm:
    """`of`: the factor of a turn of k messages."""

    meaning: str
    of: Callable[[Traffic, Array], Array]


def _each(factor: Callable[[Traffic], float]) -> Callable[[Traffic, Array], Array]:
    return lambda traffic, k: k * factor(traffic)


def _indexed(traffic: Traffic) -> float:
    return math.log2(1 + traffic.filters)


TERMS: Mapping[str, CostTerm] = MappingProxyType(
    {
        "turn": CostTerm("a turn: waking up, bookkeeping", lambda t, k: np.ones_like(k)),
        "read": CostTerm("a read from one connection", lambda t, k: t.reads(k)),
        "write": CostTerm("a write to one connection", lambda t, k: t.writes(k)),
        "commit": CostTerm("a commit of persistent messages", lambda t, k: np.full_like(k, t.persistent)),
        "receipt": CostTerm("the receipts for a read of persistent messages", lambda t, k: t.persistent * t.reads(k)),
        "answer": CostTerm("an acknowledgement of a subscriber", lambda t, k: t.persistent * t.interests.reached(k)),
        "message": CostTerm("a message", _each(lambda t: 1.0)),
        "body": CostTerm("a byte of a body, received", _each(lambda t: t.body)),
        "property": CostTerm("a property, received", _each(lambda t: t.properties)),
        "filter": CostTerm("log2(1 + filters), indexed", _each(_indexed)),
        "scan": CostTerm("a filter, evaluated one by one", _each(lambda t: t.filters)),
        "component": CostTerm("a further comparison, indexed", _each(lambda t: (t.components - 1) * _indexed(t))),
        "copy": CostTerm("a copy", _each(lambda t: t.receivers)),
        "copy_body": CostTerm("a byte of a body, sent", _each(lambda t: t.receivers * t.body)),
        "copy_cold": CostTerm("a byte sent that does not stay in the cache", lambda t, k: t.cold_bytes(k)),
        "copy_property": CostTerm("a property, sent", _each(lambda t: t.receivers * t.properties)),
        "stored": CostTerm("a persistent message", _each(lambda t: float(t.persistent))),
        "stored_body": CostTerm("a byte of a persistent body", _each(lambda t: t.persistent * t.body)),
        "acknowledged": CostTerm("an acknowledged copy", _each(lambda t: t.persistent * t.receivers)),
    }
)
OF_RECEIVERS = ("write", "answer", "copy", "copy_body", "copy_cold", "copy_property", "acknowledged")
# What a message costs the clients, of one core for all of them.
CLIENT_TERMS: Mapping[str, Callable[[Traffic, Array], Array]] = MappingProxyType(
    {
        "message": _each(lambda t: 1.0),
        "read": lambda t, k: t.reads(k),
        "write": lambda t, k: t.writes(k),
        "body": _each(lambda t: t.body),
        "copy_body": _each(lambda t: t.receivers * t.body),
    }
)
DOMAIN = ("body", "properties", "filters", "components", "receivers", "publishers", "in_flight")


def row(traffic: Traffic, k: float) -> Array:
    """The factors of TERMS for one message in a turn of k."""
    sizes = np.array([k], dtype=np.float64)
    return np.array([float(term.of(traffic, sizes)[0]) / k for term in TERMS.values()])


def client_row(traffic: Traffic, k: float) -> Array:
    """The factors of CLIENT_TERMS for one message in a turn of k."""
    sizes = np.array([k], dtype=np.float64)
    return np.array([float(factor(traffic, sizes)[0]) / k for factor in CLIENT_TERMS.values()])


def seconds_of(traffic: Traffic, values: Sequence[float], k: Array, names: tuple[str, ...] = tuple(TERMS)) -> Array:
    """The mean time that these terms take in turns of k messages."""
    parts = [value * TERMS[name].of(traffic, k) for name, value in zip(TERMS, values, strict=True) if name in names]
    return np.asarray(sum(parts), dtype=np.float64)
