"""Policies of queues: how long and how large they may become, and what becomes of what does not fit.

A policy holds for the queues that its pattern matches; of several the first one decides. It limits what a queue holds:
what waits, what is with consumers or in transactions. With `Overflow.REFUSE` what is on its way to the disk counts too,
and publishers get an error; the other ways of dealing with too much act when a message arrives. They take messages that
wait, the first one in the order of delivery or, with `DROP_NEWEST`, the one that arrives.

>>> from tidings.model.destination import Destination, DestinationPattern
>>> policies = (QueuePolicy(DestinationPattern.parse("queue:orders.*"), messages_max=1000), )
>>> policy_of(policies, Destination.parse("queue:orders.eu")).messages_max, policy_of(policies, Destination("q", True))
(1000, None)
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum

from tidings.delivery.redelivery_delay import Backoff
from tidings.model.destination import Destination, DestinationPattern


class Overflow(Enum):
    """The action taken when a queue is full."""

    REFUSE = "refuse"
    DROP_OLDEST = "drop-oldest"
    DROP_NEWEST = "drop-newest"
    DEAD_LETTER = "dead-letter"


class QueueScope(Enum):
    """The brokers that a queue is for: each has one of its own, or the network has one, with one home."""

    BROKER = "broker"
    NETWORK = "network"


@dataclass(frozen=True, slots=True)
class QueuePolicy:
    """0: as without a policy."""

    pattern: DestinationPattern
    messages_max: int = 0
    bytes_max: int = 0
    overflow: Overflow = Overflow.REFUSE
    lifetime_ms: int = 0  # a message expires so long after it was published, or earlier if it says so
    deliveries_max: int = 0
    dead_letters: Destination | None = None  # None: the broker's
    idle_ms: int = 0  # deleted when it was empty and without consumers for so long
    create: bool = True  # False: nobody makes such a queue by using it
    backoff: Backoff = Backoff()  # noqa: RUF009  # frozen: before what was rejected comes again
    single_active: bool = False  # one consumer is served, the others stand by
    scope: QueueScope = QueueScope.BROKER
    home: int = 0  # of a queue of the network: the broker that keeps it; 0: the one where it is first used


def policy_of(policies: Iterable[QueuePolicy], destination: Destination) -> QueuePolicy | None:
    """The policy of a queue."""
    return next((one for one in policies if one.pattern.matches(destination)), None)


@dataclass(slots=True)
class StoredBytes:
    """Counts what the queues of one user hold together, with what is on its way to them."""

    bytes_max: int = 0  # 0: any
    bytes: int = 0
    user: str = ""


@dataclass(slots=True)
class Quota:
    """Counts what a queue holds, for its policy. Sizes of messages that came before there was one are not known."""

    policy: QueuePolicy
    bytes: int = 0  # of what the queue holds
    idle_since_ms: int | None = None
    dropped: dict[Overflow, int] = field(default_factory=dict)  # what became of what did not fit
    stored: StoredBytes | None = None  # of the queue's owner, if there is a limit
    _sizes: dict[int, int] = field(default_factory=dict)  # by seq
    _coming: dict[int, int] = field(default_factory=dict)  # sizes of what is on its way to the disk, by seq
    _coming_bytes: int = 0
    _leaving: dict[int, int] = field(default_factory=dict)  # sizes of what goes to the dead letters, by seq
    _leaving_bytes: int = 0

    def count_for(self, stored: StoredBytes | None) -> None:
        """Count what the queue holds there from now on, and no longer elsewhere."""
        if stored is self.stored:
            return
        self._change(-self.bytes - self._coming_bytes)
        self.stored = stored
        self._change(self.bytes + self._coming_bytes)

    def _change(self, more: int) -> None:
        if self.stored is not None:
            self.stored.bytes += more

    def coming(self, seq: int, size: int) -> None:
        self._coming[seq] = size
        self._coming_bytes += size
        self._change(size)

    def arrived(self, seq: int) -> None:
        """It is in the queue now, or will never be."""
        size = self._coming.pop(seq, 0)
        self._coming_bytes -= size
        self._change(-size)

    def holds(self, seq: int, size: int) -> None:
        more = size - self._sizes.get(seq, 0)
        self.bytes += more
        self._change(more)
        self._sizes[seq] = size

    def leaving(self, seq: int) -> None:
        """It makes room already, but is in the queue until it is safe elsewhere."""
        if seq not in self._leaving:
            self._leaving[seq] = self._sizes.get(seq, 0)
            self._leaving_bytes += self._leaving[seq]

    def stays(self, seq: int) -> None:
        self._leaving_bytes -= self._leaving.pop(seq, 0)

    def left(self, seq: int) -> None:
        self.stays(seq)
        size = self._sizes.pop(seq, 0)
        self.bytes -= size
        self._change(-size)

    def full(self, messages: int) -> bool:
        """Reports whether a queue with this many messages holds more than it may."""
        policy = self.policy
        over = policy.bytes_max and self.bytes - self._leaving_bytes > policy.bytes_max
        return bool(over or (policy.messages_max and messages - len(self._leaving) > policy.messages_max))

    def refuses(self, messages: int, more: int, more_bytes: int) -> bool:
        """Reports whether publishers may not add so much to a queue with this many messages."""
        policy = self.policy
        if policy.overflow is not Overflow.REFUSE:
            return False
        if policy.bytes_max and self.bytes + self._coming_bytes + more_bytes > policy.bytes_max:
            return True
        return bool(policy.messages_max and messages + len(self._coming) + more > policy.messages_max)

    def count(self, overflow: Overflow) -> None:
        self.dropped[overflow] = self.dropped.get(overflow, 0) + 1
