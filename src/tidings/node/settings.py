"""Settings of a node, filled by the broker's configuration file."""

from dataclasses import dataclass, field

from tidings.delivery.policy import QueuePolicy, QueueScope
from tidings.model.destination import Destination
from tidings.node.limits import UserQuota


@dataclass(frozen=True, slots=True)
class Pieces:
    """Counts and sizes of the node's own steps. Nobody configures them; simulations draw them at random, so that what
    happens at their limits happens often."""

    load_messages: int = 256  # fetched from the store at a time, for one mailbox, link or scheme
    transit_bytes_max: int = 64 << 20  # of messages on their way to other brokers that memory keeps
    events_bytes_max: int = 8 << 20  # of persistent events under way, and of those waiting in memory
    expiry_messages: int = 5_000  # looked at for expiry in one tick
    expiry_page: int = 512  # of these, read from the store at a time
    journal_messages: int = 4_096  # on their way to disk, before publishers wait: a batch is completed in one step
    later_changes: int = 1_000  # that nobody waits for, before they are written all the same
    changes_bytes_max: int = 64 << 20  # in one batch, about: a store may take no more than 512 MiB
    relay_id_slots: int = 256  # of ids of messages that came from other brokers, in each a slot's number of them
    relay_slot_ids: int = 256
    number_ranges_max: int = 1024  # of a broker's run, that numbers of its copies fall into
    solo_messages: int = 16  # of one publisher in a row, before each is written at once


@dataclass(frozen=True, slots=True)
class NodeSettings:
    broker_id: int = 1
    deliveries_max: int = 6  # then a message becomes a dead letter
    dead_letters: Destination = field(default_factory=lambda: Destination.parse("queue:dead-letters"))
    bury_expired: bool = False  # what expires in queues and durable subscriptions becomes a dead letter
    subscriptions_max: int = 10_000  # of one connection
    mailboxes_max: int = 1_000_000
    transaction_bytes_max: int = 64 << 20
    transaction_messages_max: int = 5_000  # a commit is one step: others wait for it
    transactions_max: int = 1_000  # open at once on one connection
    transactions_bytes_max: int = 128 << 20  # of all open transactions together
    sink_bytes_max: int = 4 << 20  # what may wait for one subscription without a disk before its policy acts
    stall_ms: int = 1_000  # a subscription that takes nothing for so long no longer holds up publishers
    messages_bytes_max: int = 256 << 20  # message bytes in memory before stored ones leave it
    pinned_bytes_max: int = 128 << 20  # message bytes only memory has, before durable mailboxes use the disk
    journal_bytes_max: int = 32 << 20  # message bytes on their way to disk before publishers wait
    retained_bytes_max: int = 1 << 30  # of one retained subscription
    credit_default: int = 1_000
    credit_max: int = 1_000_000
    last_values: bool = False  # keep the last message of each topic that was published with JMSXRetain
    slow_policies: frozenset[str] = frozenset({"push-back", "drop-oldest", "drop-newest", "disconnect"})  # on offer
    policies: tuple[QueuePolicy, ...] = ()  # of queues; the first that fits
    subscription_scope: QueueScope = QueueScope.BROKER  # of durable and shared subscriptions
    alternatives: tuple[str, ...] = ()  # addresses of brokers that native clients may turn to
    quotas: tuple[UserQuota, ...] = ()  # of users; the first that fits
    pieces: Pieces = field(default_factory=Pieces)
