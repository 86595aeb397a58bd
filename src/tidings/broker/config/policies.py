"""The tables [[policies]]: limits of queues."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from tidings.broker.config.schema_reader import Problem, setting
from tidings.delivery.policy import Overflow, QueuePolicy, QueueScope
from tidings.delivery.redelivery_delay import Backoff
from tidings.errors import TidingsError
from tidings.model.destination import Destination, DestinationPattern

OVERFLOWS = tuple(one.value for one in Overflow)
SCOPES = tuple(one.value for one in QueueScope)
_MS: dict[str, Any] = {"minimum": 0, "maximum": 1 << 42, "reload": True}


@dataclass(frozen=True, slots=True)
class PolicyTable:
    destination: str = setting(
        "", "the queues: queue:… (wildcards too); the first policy that matches holds", reload=True
    )
    messages_max: int = setting(
        0,
        "messages that a queue holds at most, those with consumers included; 0: any",
        minimum=0,
        maximum=1 << 31,
        reload=True,
    )
    bytes_max: int = setting(
        0, "bytes of messages that a queue holds at most; 0: any", minimum=0, maximum=1 << 40, reload=True
    )
    overflow: str = setting(
        Overflow.REFUSE.value,
        "what happens when a queue is full: its publishers get E_QUEUE_FULL, or the first or the newest message is "
        "lost, or the first goes to the dead letters",
        choices=OVERFLOWS,
        reload=True,
    )
    lifetime_ms: int = setting(
        0, "messages expire so long after they were published, at the latest; 0: no limit", **_MS
    )
    deliveries_max: int = setting(
        0, "as in [delivery], for these queues; 0: the number given there", minimum=0, maximum=1_000_000, reload=True
    )
    dead_letters: str = setting("", "the queue for their dead letters; empty: the one in [delivery]", reload=True)
    idle_ms: int = setting(0, "delete a queue that was empty and without consumers for so long; 0: never", **_MS)
    create: bool = setting(
        True, "a queue is made when it is first used; false: only by users with `manage`", reload=True
    )
    redelivery_first_ms: int = setting(
        0, "delay before a message that was rejected or rolled back comes again; 0: none", **_MS
    )
    redelivery_factor: float = setting(
        2.0, "factor by which each further delay is longer", minimum=1, maximum=1000, reload=True
    )
    redelivery_most_ms: int = setting(0, "longest delay; 0: no limit", **_MS)
    redelivery_jitter: float = setting(
        0.0, "delays are shorter by a random share of up to this", minimum=0, maximum=1, reload=True
    )
    single_active: bool = setting(
        False, "only the first consumer is served; the next one takes over when it leaves", reload=True
    )

    scope: str = setting(
        QueueScope.BROKER.value,
        "broker: each broker has a queue of its own of this name; network: they have one, kept by its home and used at "
        "all of them (docs/networks.md). It must be the same at all brokers, and needs routing bdrp",
        choices=SCOPES,
        reload=True,
    )
    home: int = setting(
        0,
        "with scope network: the id of the broker that keeps these queues; 0: the one where each is first used",
        minimum=0,
        maximum=2**32 - 1,
        reload=True,
    )

    def policy(self) -> QueuePolicy:
        return QueuePolicy(
            DestinationPattern.parse(self.destination),
            self.messages_max,
            self.bytes_max,
            Overflow(self.overflow),
            self.lifetime_ms,
            self.deliveries_max,
            Destination.parse(self.dead_letters) if self.dead_letters else None,
            self.idle_ms,
            self.create,
            Backoff(self.redelivery_first_ms, self.redelivery_factor, self.redelivery_most_ms, self.redelivery_jitter),
            self.single_active,
            QueueScope(self.scope),
            self.home,
        )


def policies_of(tables: Iterable[PolicyTable]) -> tuple[QueuePolicy, ...]:
    return tuple(one.policy() for one in tables)


def problems(number: int, table: PolicyTable, routing: str = "bdrp") -> Iterator[Problem]:
    """`routing`: of the network, if the broker is in one."""
    at = ("policies", number)
    if table.home and table.scope != QueueScope.NETWORK.value:
        yield Problem((*at, "home"), "only a queue of the network has a home", 'set scope = "network", or remove it')
    if table.scope == QueueScope.NETWORK.value and routing != "bdrp":
        reason = f"routing {routing} does not carry queues of the network"
        yield Problem((*at, "scope"), reason, 'set network.routing = "bdrp", or scope = "broker"')
    remedy = "give a pattern of queues, such as queue:orders.>"
    try:
        if not DestinationPattern.parse(table.destination).queue:
            yield Problem((*at, "destination"), "policies apply to queues", remedy)
    except TidingsError as error:
        yield Problem((*at, "destination"), error.reason, remedy)
    if not table.dead_letters:
        return
    try:
        if not Destination.parse(table.dead_letters).queue:
            yield Problem((*at, "dead_letters"), "not a queue", "name a queue: queue:dead-orders")
    except TidingsError as error:
        yield Problem((*at, "dead_letters"), error.reason, "name a queue: queue:dead-orders")
