"""The plane as the rest of a node sees it: it notes which predicates are installed, and by whom.

What local subscriptions ask for is what a routing scheme advertises, and their subscribers are what tracking records.
Request handler and mailbox service install predicates in the plane and know nothing of either; this stands between, and
lists changes.
"""

from collections import Counter, deque
from typing import NamedTuple

from tidings.kernel.forwarder import DirectSink
from tidings.node.plane import Plane


class InterestChange(NamedTuple):
    added: bool
    predicate: bytes
    mailbox: bool  # of a subscription whose messages wait here for acknowledgement, perhaps durable


class ObservedPlane:
    def __init__(self, plane: Plane) -> None:
        self.changes: deque[InterestChange] = deque()  # in order, that were not taken yet
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

    def unsubscribe_all(self, sinks: list[int]) -> None:
        """End direct subscriptions, of which there may be very many."""
        self._plane.unsubscribe_all(sinks)
        predicates, connections = self._predicates.pop, self._connections.pop
        self._direct += [(False, connections(sink)) for sink in sinks]
        self.changes += [InterestChange(False, predicates(sink), False) for sink in sinks]

    def predicates(self) -> list[bytes]:
        """Those that were noted and taken: with `changes`, all that are installed."""
        found = Counter(self._predicates.values())
        for change in self.changes:
            found[change.predicate] += -1 if change.added else 1
        return list(found.elements())

    def take_changes(self, most: int) -> list[InterestChange]:
        """The oldest of them."""
        return [self.changes.popleft() for _ in range(min(most, len(self.changes)))]

    def take_direct(self) -> list[tuple[bool, int]]:
        direct, self._direct = self._direct, []
        return direct

    def _note(self, sink: int, predicate: bytes) -> int:
        self._predicates[sink] = predicate
        self.changes.append(InterestChange(True, predicate, sink not in self._connections))
        return sink
