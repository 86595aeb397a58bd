"""The plane as the rest of a node sees it: it notes which predicates are installed, and by whom.

What local subscriptions ask for is what a routing scheme advertises, and their subscribers are what tracking records.
Request handler and mailbox service install predicates in the plane and know nothing of either; this stands between, and
lists changes.
"""

from typing import NamedTuple

from tidings.kernel.forwarder import DirectSink
from tidings.node.plane import Plane


class InterestChange(NamedTuple):
    added: bool
    predicate: bytes
    mailbox: bool  # of a subscription whose messages wait here for acknowledgement, perhaps durable


class ObservedPlane:
    def __init__(self, plane: Plane) -> None:
        self.changes: list[InterestChange] = []  # in order, since they were last taken
        self._plane = plane
        self._predicates: dict[int, bytes] = {}
        self._direct: list[tuple[bool, int]] = []  # (added?, connection) of direct sinks, since they were last taken
        self._connections: dict[int, int] = {}  # of direct sinks
        self.credit = plane.credit
        self.take_credit = plane.take_credit
        self.take_overruns = plane.take_overruns
        self.match = plane.match
        self.publish = plane.publish
        self.deliver = plane.deliver
        self.room = plane.room
        self.transacted = plane.transacted
        self.advertise_event = plane.advertise_event
        self.withdraw_event = plane.withdraw_event
        self.hold = plane.hold
        self.release = plane.release
        self.set_allowance = plane.set_allowance
        self.refill = plane.refill
        self.drop_allowance = plane.drop_allowance
        self.allowance_counts = plane.allowance_counts

    def subscribe(self, sink: DirectSink) -> int:
        number = self._plane.subscribe(sink)
        self._connections[number] = sink.connection
        self._direct.append((True, sink.connection))
        return self._note(number, sink.predicate)

    def mailbox(self, predicate: bytes) -> int:
        return self._note(self._plane.mailbox(predicate), predicate)

    def unsubscribe(self, sink: int) -> None:
        self._plane.unsubscribe(sink)
        connection = self._connections.pop(sink, None)
        self.changes.append(InterestChange(False, self._predicates.pop(sink), connection is None))
        if connection is not None:
            self._direct.append((False, connection))

    def predicates(self) -> list[bytes]:
        """Those that were noted and taken: with `changes`, all that are installed."""
        untaken = [change.predicate for change in self.changes if change.added]
        found = list(self._predicates.values())
        for predicate in untaken:
            found.remove(predicate)
        return found

    def take_changes(self) -> list[InterestChange]:
        changes, self.changes = self.changes, []
        return changes

    def take_direct(self) -> list[tuple[bool, int]]:
        direct, self._direct = self._direct, []
        return direct

    def _note(self, sink: int, predicate: bytes) -> int:
        self._predicates[sink] = predicate
        self.changes.append(InterestChange(True, predicate, sink not in self._connections))
        return sink
