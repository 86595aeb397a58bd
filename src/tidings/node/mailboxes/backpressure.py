"""Publishers that must wait, and for what.

Reasons to wait: too much is on its way to disk or only in memory (then everybody who adds to it waits), one mailbox
that is not durable is full (then those who publish to it wait, unless its consumers take nothing at all), a scheme that
carries messages itself has filled a link (where the plane sends them, it holds publishers without the node), or a type
is being advertised. A connection is held while any reason lasts.
"""

from collections.abc import Hashable

from tidings.delivery.mailbox import Mailbox
from tidings.node.plane import Plane

CROWD = "crowd"
LINKS = "links"


class Backpressure:
    def __init__(self, plane: Plane) -> None:
        self._plane = plane
        self._reasons: dict[int, set[Hashable]] = {}
        self.held: dict[Hashable, set[int]] = {}  # waiting publishers by reason
        self.pushed_back = 0  # times that somebody had to wait for a mailbox
        self.far_bytes_max = 0  # what a full mailbox takes of other brokers beyond its limit; 0: nothing
        self.far: set[Mailbox] = set()  # those that are full of it: publishers there wait

    def hold(self, connection: int, reason: Hashable) -> None:
        reasons = self._reasons.setdefault(connection, set())
        if not reasons:
            self._plane.hold(connection)
        if isinstance(reason, Mailbox) and reason not in reasons:
            self.pushed_back += 1
        reasons.add(reason)
        self.held.setdefault(reason, set()).add(connection)

    def hold_far(self, mailbox: Mailbox) -> None:
        self.far.add(mailbox)
        self.held.setdefault(mailbox, set())

    def release(self, reason: Hashable) -> None:
        """The reason is gone: let those go for whom it was the last."""
        if self.far:
            self.far = {one for one in self.far if one is not reason}
        for connection in self.held.pop(reason, ()):
            reasons = self._reasons[connection]
            reasons.discard(reason)
            if not reasons:
                del self._reasons[connection]
                self._plane.release(connection)

    def forget(self, connection: int) -> None:
        """The connection is gone."""
        for reason in self._reasons.pop(connection, ()):
            self.held[reason].discard(connection)

    def holding(self, reason: Hashable) -> bool:
        return reason in self.held

    def mailboxes(self) -> list[Mailbox]:
        """Those that somebody waits for."""
        return [reason for reason in self.held if isinstance(reason, Mailbox)] if self.held else []
