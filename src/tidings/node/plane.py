"""The forwarding plane as a node sees it: the kernel's forwarder, or anything with its face."""

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from tidings.kernel.forwarder import DirectSink, NetworkShape
from tidings.kernel.tracker import Tracker


class AllowancePlane(Protocol):
    """The plane as far as it counts what publishers send."""

    def set_allowance(self, connection: int, number: int) -> None:
        """Count what it publishes for this allowance; 0: for none."""

    def refill(self, number: int, messages: int, messages_max: int, bytes: int, bytes_max: int) -> None:
        """So much more may be published by those who share this allowance, up to a bound; 0: without end."""

    def drop_allowance(self, number: int) -> None: ...

    def allowance_counts(self, number: int) -> tuple[int, int, int]:
        """Messages, bytes and waits so far."""


class Plane(AllowancePlane, Protocol):
    def subscribe(self, sink: DirectSink) -> int:
        """Returns the sink number."""

    def mailbox(self, predicate: bytes) -> int:
        """A sink whose messages come back as events. Returns the sink number."""

    def unsubscribe(self, sink: int) -> None: ...

    def unsubscribe_all(self, sinks: list[int]) -> None: ...

    def credit(self, sink: int, more: int, now_ms: int) -> None: ...

    def take_credit(self, sink: int) -> int:
        """Take back the credit that is left; returns how much that was."""

    def take_overruns(self) -> list[tuple[int, int]]:
        """Mailbox sinks whose filters were given up since the last call because a message's budget was used up, and for
        how many messages. Subscribers of direct sinks get notices from the plane."""

    def match(self, message: bytes) -> list[int]:
        """The mailbox sinks that match."""

    def publish(self, message: bytes, now_ms: int, connection: int | None) -> None:
        """Serve the direct sinks that match."""

    def deliver(
        self, connection: int, subscription: int, attempts: list[int], tags: list[int], messages: list[bytes]
    ) -> None: ...

    def room(self, connection: int) -> int:
        """The number of bytes that may still be delivered to this connection now."""

    def advertise_event(
        self, connection: int, topic: str, type: str, attributes: Sequence[tuple[str, int, bool]]
    ) -> None:
        """Events of this connection to a topic that fit are forwarded without being shown: name, kind in the order of
        `AttributeType`, and whether it may be missing."""

    def withdraw_event(self, connection: int, topic: str) -> None: ...

    def transacted(self, connection: int, session: int, on: bool) -> None: ...

    def hold(self, connection: int) -> None:
        """Stop reading from this connection until `release`."""

    def release(self, connection: int) -> None: ...


class TrackingPlane(Protocol):
    """The plane as far as it records what passes."""

    def use_tracker(self, tracker: Tracker) -> None: ...

    def set_subscriber(self, connection: int, subscriber: int) -> None:
        """Direct deliveries of this connection are recorded as this subscriber's; 0: they are not."""


class NetworkPlane(Plane, TrackingPlane, Protocol):
    """The plane of a broker that may have links to others."""

    def join(self, network: NetworkShape) -> None: ...

    def interest(self, router: int, added: Collection[bytes], removed: Collection[bytes]) -> None: ...

    def forget(self, router: int) -> None: ...

    def routes(self, next_hops: Mapping[int, int]) -> None: ...

    def reverse_paths(self, origins: Mapping[int, Sequence[int]]) -> None:
        """Of each neighbour the origins whose broadcasts it takes from here; one that is not named may take all."""

    def event_tree(
        self, name: str, up: int, calls: bool, neighbours: Sequence[int], parents: Sequence[str]
    ) -> None: ...

    def drop_event_tree(self, name: str) -> None: ...

    def event_filter(self, name: str, neighbour: int, parent: str, placed: bytes, filter: bytes) -> int: ...

    def drop_event_filter(self, number: int) -> None: ...

    def link(self, connection: int, neighbour: int) -> None:
        """This connection leads to a neighbour: messages for others may leave and arrive by it."""

    def unlink(self, neighbour: int) -> None: ...

    def congestion(self) -> tuple[bool, list[int]]:
        """Reports whether subscribers here do not keep up with other brokers, and the neighbours whose links do not."""

    def set_congested(self, routers: Sequence[int]) -> None:
        """Publishers of messages for these destinations wait from now on, and for no others."""

    def link_waiting(self, neighbour: int) -> int:
        """Bytes that wait for a link."""

    def send(self, connection: int, data: bytes) -> None:
        """A whole frame, in order with what the plane sends of its own accord."""

    def destinations(self, message: bytes) -> list[int]:
        """The other brokers that want it."""

    def network_stats(self) -> Mapping[str, int]:
        """Counts of copies to and from other brokers."""

    def take_in_vain(self) -> list[bytes]:
        """Some of the messages that other brokers sent here since the last call and that nobody here wanted."""

    def enter(self, message: bytes, now_ms: int, connection: int | None) -> None:
        """Send a message that is not persistent to the other brokers that want it."""

    def relay(
        self,
        neighbour: int,
        routers: list[int],
        numbers: list[int],
        origin: int,
        epoch: int,
        repeated: bool,
        hops: int,
        tag: int,
        message: bytes,
        now_ms: int,
    ) -> bool:
        """A copy that the neighbour must acknowledge, with a number for each router; False if it cannot be sent now."""
