"""The forwarding plane: from the bytes of one socket read to the output of every sink they match.

The kernel's own class (native/bindings/forwarder.cpp), with records for calls that have many parameters. The caller
brings bytes and time, and takes output and events (`tidings.kernel.events`); it uses no socket and no clock.
"""

from collections.abc import Collection
from dataclasses import dataclass
from enum import IntFlag

from tidings import _kernel
from tidings.kernel.tracker import Tracker

FRAME_HEADER_BYTES = 8
PERHAPS_SENT = 1  # flag of a PUBLISH frame: sent again after a broken connection
_POLICIES = {"push-back": 0, "drop-oldest": 1, "drop-newest": 2, "disconnect": 3}


class Flag(IntFlag):
    """Flags that `feed`, `serve`, `handled` and `resume` return."""

    OUTPUT = 1  # some connection has output
    EVENTS = 2  # call `events`
    BLOCKED = 4  # stop reading from this connection
    LEFT = 8  # of `serve`: not everything is written, or there is more to see to


@dataclass(frozen=True, slots=True)
class DirectSink:
    """A subscription whose messages go straight to the output of its connection."""

    connection: int
    subscription: int
    predicate: bytes
    credit: int = 0  # messages; 0: without end, -1: none at first
    policy: str = "push-back"  # or "drop-oldest", "drop-newest", "disconnect": when more waits than may
    backlog_bytes_max: int = 1 << 20
    no_local: bool = False  # not what this connection publishes itself


@dataclass(frozen=True, slots=True)
class NetworkShape:
    """A router's place in its network, and how the network encodes interests."""

    router: int
    flooding: bool = False  # interests belong to neighbours, and every broker matches again
    hands_up: bool = False  # what is not persistent is carried by a scheme in Python
    broadcast_above: int = 0  # destinations; 0: never broadcast
    hops_max: int = 32
    backlog_bytes_max: int = 8 << 20
    far_bytes_max: int = 0  # of other brokers that a full sink takes beyond its limit; 0: none, and nobody waits
    vectors: bool = True  # rows are vectors; otherwise sets of elements
    bits: int = 256
    hashes: int = 7
    key: int = 0
    graded: bool = False


class Forwarder(_kernel.Forwarder):
    def subscribe(self, sink: DirectSink) -> int:
        """Returns the sink's number."""
        return self.add_direct_sink(
            sink.connection,
            sink.subscription,
            sink.predicate,
            sink.credit,
            _POLICIES[sink.policy],
            sink.backlog_bytes_max,
            sink.no_local,
        )

    def use_tracker(self, tracker: Tracker) -> None:
        """Record what passes from now on."""
        self.record_in(tracker.kernel)

    def join(self, network: NetworkShape) -> None:
        """From now on this is one router of a network."""
        self.join_network(
            network.router,
            network.flooding,
            network.hands_up,
            network.broadcast_above,
            network.hops_max,
            network.backlog_bytes_max,
            network.far_bytes_max,
            network.vectors,
            network.bits,
            network.hashes,
            network.key,
            network.graded,
        )

    def interest(self, router: int, added: Collection[bytes], removed: Collection[bytes]) -> None:
        """Rows that lead to a router from now on, and that no longer do."""
        super().interest(router, list(added), list(removed))
