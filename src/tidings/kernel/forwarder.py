"""The forwarding plane: from the bytes of one socket read to the output of every sink they match.

A thin face over the kernel's forwarder (native/tidings/forwarder.hpp): it gives names to numbers. The caller brings
bytes and time, and takes output and events; there is no socket and no clock in here.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from typing import Any, TypeAlias

from tidings import _kernel
from tidings.kernel.tracker import Tracker

EventTuple: TypeAlias = tuple[Any, ...]
_POLICIES = {"push-back": 0, "drop-oldest": 1, "drop-newest": 2, "disconnect": 3}
FRAME_HEADER_BYTES = 8


class Kind(IntEnum):
    """The first item of an event; the others are as said here."""

    CONTROL = 1  # connection, type, flags, session, payload; parsing waits for `handled`
    MESSAGE = 2  # connection, frame flags, receipt, expires_ms, message, mailbox sinks
    TRANSACTED = (
        3  # connection, session, receipt, message: of any session but 0, one in a transaction, or a typed event
    )
    ASK = 4  # connection, session, receipt, queue?, destination; parsing waits for `allow` or `skip`, then `handled`
    ERROR = 5  # connection, code, reason, position, receipt (STOMP only); nothing more of this connection is parsed
    SLOW = 6  # connection, subscription: its policy is to be disconnected; subscription 0: memory is short
    ROOM = 7  # connection: there is room in its output again
    ARRIVED = 8  # link, expires_ms, message, mailbox sinks: from another broker
    RELAY = 9  # link, hops, tag, routers, expires_ms, message: persistent, from another broker
    # connection, frame flags, receipt, expires_ms, message, mailbox sinks, routers (none: a scheme carries it)
    ENTRY = 10
    ACK = 11  # connection, session, subscription, flags, tags
    CREDIT = 12  # connection, subscription, more: of a subscription that is no direct sink
    CLOCK = 13  # connection, milliseconds: its messages' times are off by more than `watch_clock` allows; told once


class Flag(IntFlag):
    """What `feed`, `serve`, `handled` and `resume` tell."""

    OUTPUT = 1  # some connection has output
    EVENTS = 2  # call `events`
    BLOCKED = 4  # stop reading from this connection
    LEFT = 8  # of `serve`: not everything is written, or there is more to see to


@dataclass(frozen=True, slots=True)
class NetworkShape:
    """A router's place in its network, and how the network encodes interests."""

    router: int
    flooding: bool = False  # interests belong to neighbours, and every broker matches anew
    hands_up: bool = False  # what is not persistent is carried by a scheme in Python
    broadcast_above: int = 0  # destinations; 0: never broadcast
    hops_max: int = 32
    backlog_bytes_max: int = 8 << 20
    vectors: bool = True  # rows are vectors; otherwise sets of elements
    bits: int = 256
    hashes: int = 7
    key: int = 0
    graded: bool = False


class Forwarder:
    def __init__(
        self,
        *,
        read_bytes: int = 64 << 10,
        output_bytes_max: int = 1 << 20,
        memory_bytes_max: int = 256 << 20,
        login_frame_bytes_max: int = 64 << 10,
        stall_ms: int = 1000,
    ) -> None:
        plane = _kernel.Forwarder(read_bytes, output_bytes_max, memory_bytes_max, login_frame_bytes_max, stall_ms)
        # Bound once: the driver calls these for every read and write.
        self.buffer = plane.buffer
        self.open = plane.open
        self.close = plane.close
        self.log_in = plane.log_in
        self.allow = plane.allow
        self.skip = plane.skip
        self.ignore = plane.ignore
        self.feed = plane.feed
        self.serve = plane.serve  # feed, and write what comes of it if it is only output
        self.feed_bytes = plane.feed_bytes
        self.handled = plane.handled
        self.resume = plane.resume
        self.send = plane.send
        self.confirm = plane.confirm  # receipts of publications, as the connection's protocol says it
        self.room = plane.room
        self.take = plane.take
        self.write_all = plane.write_all
        self.set_socket = plane.set_socket
        self.written_ms = plane.written_ms
        self.take_dirty = plane.take_dirty
        self.has_resumable = plane.has_resumable
        self.take_resumable = plane.take_resumable
        self.set_writable = plane.set_writable
        self.has_output = plane.has_output
        self.output_bytes = plane.output_bytes
        self.check_stalls = plane.check_stalls
        self.sink_counts = plane.sink_counts
        self.stats = plane.stats
        self.grade_sums = plane.grade_sums
        self.destination_counts = plane.destination_counts
        self.filters = plane.filters
        self.overruns = plane.overruns  # evaluations of filters given up: a message's budget was used up
        self.take_overruns = plane.take_overruns  # sinks concerned since the last call
        self.received = plane.received
        self.events: Callable[[], list[EventTuple]] = plane.events  # what only Python can do, in order
        self.has_events = plane.has_events
        self.deliver = plane.deliver  # from a mailbox: connection, subscription, attempts, tags, messages
        self.held_bytes = plane.held_bytes
        self.fresh_bytes = plane.fresh_bytes
        self.matcher_bytes = plane.matcher_bytes
        self.link = plane.link
        self.unlink = plane.unlink
        self.link_waiting = plane.link_waiting
        self.destinations = plane.destinations
        self.relay = plane.relay
        self.network_stats = plane.network_stats
        self.speak_stomp = plane.speak_stomp
        self.stomp_version = plane.stomp_version
        self.stomp_publisher = plane.stomp_publisher
        self.stomp_label = plane.stomp_label
        self.stomp_transaction = plane.stomp_transaction
        self.stomp_receipt = plane.stomp_receipt
        self.stomp_types = plane.stomp_types
        self.set_subscriber = plane.set_subscriber
        self.watch_clock = plane.watch_clock
        self._plane = self.kernel = plane

    def use_tracker(self, tracker: Tracker) -> None:
        """Record what passes from now on."""
        self._plane.use_tracker(tracker.kernel)

    def subscribe(
        self,
        connection: int,
        subscription: int,
        predicate: bytes,
        *,
        credit: int,
        policy: str,
        backlog_bytes_max: int,
        no_local: bool,
    ) -> int:
        """A direct sink: what matches goes straight to the connection's output. Returns the sink's number.

        `credit`: how many; 0 means without end, -1 none at first.
        """
        number = _POLICIES[policy]
        return self._plane.subscribe(connection, subscription, predicate, credit, number, backlog_bytes_max, no_local)

    def mailbox(self, predicate: bytes) -> int:
        """A sink whose messages come back as events. Returns its number."""
        return self._plane.mailbox(predicate)

    def unsubscribe(self, sink: int) -> None:
        self._plane.unsubscribe(sink)

    def credit(self, sink: int, more: int, now_ms: int) -> None:
        self._plane.credit(sink, more, now_ms)

    def take_credit(self, sink: int) -> int:
        """Take back the credit that is left; returns how much that was."""
        return self._plane.take_credit(sink)

    def match(self, message: bytes) -> list[int]:
        """The mailbox sinks that match."""
        return self._plane.match(message)

    def publish(self, message: bytes, now_ms: int, connection: int | None) -> None:
        """Serve the direct sinks that match; `connection` is the publisher's, if it has one."""
        self._plane.publish(message, now_ms, -1 if connection is None else connection)

    def transacted(self, connection: int, session: int, on: bool) -> None:
        """Whether messages of this session wait for a commit."""
        self._plane.set_transacted(connection, session, on)

    def hold(self, connection: int) -> None:
        """Parse nothing more of this connection until `release`."""
        self._plane.hold(connection)

    def release(self, connection: int) -> None:
        self._plane.release(connection)

    # --- with other brokers (native/tidings/network.hpp) ------------------------------------------------------------

    def join(self, network: NetworkShape) -> None:
        """From now on this is one router of a network."""
        self._plane.join(
            network.router,
            network.flooding,
            network.hands_up,
            network.broadcast_above,
            network.hops_max,
            network.backlog_bytes_max,
            network.vectors,
            network.bits,
            network.hashes,
            network.key,
            network.graded,
        )

    def interest(self, router: int, added: Collection[bytes], removed: Collection[bytes]) -> None:
        """Rows that lead to a router from now on, and that no longer do."""
        self._plane.interest(router, list(added), list(removed))

    def forget(self, router: int) -> None:
        self._plane.forget(router)

    def routes(self, next_hops: Mapping[int, int]) -> None:
        """For every router that can be reached: the neighbour on the way to it."""
        self._plane.routes(list(next_hops.items()))

    def enter(self, message: bytes, now_ms: int, connection: int | None) -> None:
        """Send a message that is not persistent to the other brokers that want it."""
        self._plane.enter(message, now_ms, -1 if connection is None else connection)
