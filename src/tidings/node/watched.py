"""The plane as the rest of a node sees it: it notes which predicates are installed, and by whom.

What local subscriptions ask for is what a routing scheme advertises, and who has them is what tracking records. Desk
and post office install predicates in the plane and know nothing of either; this stands between, and lists changes.
"""

from tidings.node.plane import Plane


class WatchedPlane:
    def __init__(self, plane: Plane) -> None:
        self.changes: list[tuple[bool, bytes]] = []  # (added?, predicate), in order, since they were last taken
        self._plane = plane
        self._predicates: dict[int, bytes] = {}
        self._direct: list[tuple[bool, int]] = []  # (added?, connection) of direct sinks, since they were last taken
        self._connections: dict[int, int] = {}  # of direct sinks
        self.credit = plane.credit
        self.take_credit = plane.take_credit
        self.match = plane.match
        self.publish = plane.publish
        self.deliver = plane.deliver
        self.room = plane.room
        self.transacted = plane.transacted
        self.hold = plane.hold
        self.release = plane.release

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
        sink = self._plane.subscribe(
            connection,
            subscription,
            predicate,
            credit=credit,
            policy=policy,
            backlog_bytes_max=backlog_bytes_max,
            no_local=no_local,
        )
        self._connections[sink] = connection
        self._direct.append((True, connection))
        return self._note(sink, predicate)

    def mailbox(self, predicate: bytes) -> int:
        return self._note(self._plane.mailbox(predicate), predicate)

    def unsubscribe(self, sink: int) -> None:
        self._plane.unsubscribe(sink)
        self.changes.append((False, self._predicates.pop(sink)))
        if (connection := self._connections.pop(sink, None)) is not None:
            self._direct.append((False, connection))

    def take_changes(self) -> list[tuple[bool, bytes]]:
        changes, self.changes = self.changes, []
        return changes

    def take_direct(self) -> list[tuple[bool, int]]:
        direct, self._direct = self._direct, []
        return direct

    def _note(self, sink: int, predicate: bytes) -> int:
        self._predicates[sink] = predicate
        self.changes.append((True, predicate))
        return sink
