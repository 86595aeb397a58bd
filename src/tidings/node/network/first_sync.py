"""Custody of persistent messages at a broker that has never learned the interests of its network.

A broker with an empty store that is not linked yet knows no interests of others. To confirm persistent messages
would be to lose them. Until it has received all that its first neighbour knows, they are therefore stored for UNKNOWN,
a router that wants everything, and get their destinations then; or, if so configured, they are refused. What came
before is remembered in the store, so this concerns a broker once in its life.
"""

from collections.abc import Mapping

from tidings.delivery.store import Note
from tidings.errors import TidingsError
from tidings.node.mailboxes.journal import Journal
from tidings.node.network.settings import NetworkSettings
from tidings.node.network.store_and_forward import UNKNOWN, StoreAndForward
from tidings.node.plane import NetworkPlane
from tidings.overlay.effects import Report
from tidings.routing.control.flood import Flood
from tidings.routing.scheme import Scheme
from tidings.routing.unicast.protocol import Unicast

SYNC_NOTE = "network-synchronised"


class FirstSync:
    def __init__(self, plane: NetworkPlane, settings: NetworkSettings, store_and_forward: StoreAndForward) -> None:
        self._plane, self._store_and_forward, self._everything = (
            plane,
            store_and_forward,
            settings.encoding.everything(),
        )
        partitions = not settings.kind.by_neighbour and not settings.encoding.keyless
        self.done = settings.unsynchronised == "confirm" or not (settings.awaits_peers and partitions)
        self._refuses = settings.unsynchronised == "refuse"
        self._noted = self.done

    def recover(self, notes: Mapping[str, bytes], *, remembers: bool) -> None:
        """`remembers`: the store has interests of other brokers."""
        if notes.get(SYNC_NOTE) or remembers:
            self.done = self._noted = True

    def start(self) -> None:
        if not self.done:
            self._plane.interest(UNKNOWN, self._everything, ())
            self._store_and_forward.destinations_known = False

    @property
    def takes(self) -> bool:
        """Persistent messages are taken; False: they are refused for now."""
        return self.done or not self._refuses

    def refusal(self) -> TidingsError | None:
        """The error with which a persistent message for unknown destinations is refused; None: it is stored."""
        if self.takes:
            return None
        reason = "this broker has not yet learned who in its network wants persistent messages; send it again later"
        return TidingsError("E_NOT_SYNCHRONISED", reason)

    def check(self, flood: Flood, unicast: Unicast, scheme: Scheme) -> list[Report]:
        """Ends the custody once the interests of every broker that can be reached are known."""
        if self.done or not flood.caught_up:
            return []
        reachable = unicast.reachable()
        if not reachable or any(router not in scheme.predicates for router in reachable):
            return []
        self.done = True
        self._plane.forget(UNKNOWN)
        self._store_and_forward.destinations_known = True
        return [Report("SYNCHRONISED", "the interests of all brokers that can be reached are known")]

    def note(self, journal: Journal) -> None:
        if self.done and not self._noted:
            self._noted = True
            journal.change(Note(SYNC_NOTE, b"1"))
