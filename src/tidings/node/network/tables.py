"""The tables that a routing scheme fills, in the plane and where messages are in transit."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from tidings.node.mailboxes.backpressure import Backpressure
from tidings.node.network.link_channels import LinkChannels
from tidings.node.network.notes import NetworkNotes
from tidings.node.network.settings import NetworkSettings
from tidings.node.network.store_and_forward import StoreAndForward
from tidings.node.plane import NetworkPlane
from tidings.overlay.effects import Router
from tidings.routing.control.congestion import Congestion
from tidings.routing.effects import UnicastTable


class NetworkTables:
    """`give_up`: what is in transit for this router will never get there."""

    def __init__(
        self,
        plane: NetworkPlane,
        settings: NetworkSettings,
        store_and_forward: StoreAndForward,
        notes: NetworkNotes,
        give_up: Callable[[Router], None],
    ) -> None:
        self._plane, self._store_and_forward, self._notes, self._give_up = plane, store_and_forward, notes, give_up
        self._matches = not settings.encoding.keyless  # otherwise nothing that enters here could be compared with rows
        self._opened = settings.encoding.opened
        self._by_neighbour = settings.kind.by_neighbour

    def interest(self, router: Router, added: Collection[bytes], removed: Collection[bytes]) -> None:
        if self._matches:
            self._plane.interest(router, [self._opened(row) for row in added], [self._opened(row) for row in removed])
        if not self._by_neighbour:
            self._notes.interest(router)

    def forget(self, router: Router) -> None:
        if self._matches:
            self._plane.forget(router)
        if not self._by_neighbour:
            self._notes.interest(router)
            self._give_up(router)

    def routes(self, next_hops: Mapping[Router, Router]) -> None:
        self._plane.routes(next_hops)
        self._store_and_forward.routed(next_hops)

    def event_tree(
        self, name: str, up: Router, calls: bool, neighbours: Sequence[Router], parents: Sequence[str]
    ) -> None:
        self._plane.event_tree(name, up, calls, neighbours, parents)

    def drop_event_tree(self, name: str) -> None:
        self._plane.drop_event_tree(name)

    def event_filter(self, name: str, neighbour: Router, parent: str, placed: bytes, filter: bytes) -> int:
        return self._plane.event_filter(name, neighbour, parent, placed, filter)

    def drop_event_filter(self, number: int) -> None:
        self._plane.drop_event_filter(number)


class CongestionTable:
    """Congested destinations: neighbours hear of those by way of this broker, and the plane holds their publishers."""

    def __init__(
        self, plane: NetworkPlane, settings: NetworkSettings, backpressure: Backpressure, channels: LinkChannels
    ) -> None:
        self._plane, self._backpressure, self._channels = plane, backpressure, channels
        backpressure.far_bytes_max = settings.far_bytes_max if settings.push_back else 0
        self._congestion = Congestion(settings.router)
        self._changed = False
        self._mailboxes = 0  # that were full of what other brokers send, at the end of the last turn

    def change(self) -> None:
        """A queue is full of what other brokers send, or has room again; or it is time to repeat what was said."""
        self._changed = True

    def routed(self, table: UnicastTable) -> None:
        self._congestion.routed({router: route.next_hop for router, route in table.routes.items()})
        self._changed = True

    def heard(self, now: float, neighbour: Router, routers: Collection[Router]) -> None:
        self._congestion.heard(now, neighbour, routers)
        self._changed = True

    def link_down(self, neighbour: Router) -> None:
        self._congestion.link_down(neighbour)
        self._changed = True

    def settle(self, now: float, neighbours: Iterable[Router]) -> None:
        """The end of a turn: pass on which destinations are congested, and hold their publishers here."""
        mailboxes = len(self._backpressure.far)
        if not self._changed and mailboxes == self._mailboxes:
            return
        self._changed, self._mailboxes = False, mailboxes
        here, full = self._plane.congestion()
        for neighbour, notice in self._congestion.notices(now, list(neighbours), here=here or mailboxes > 0, full=full):
            self._channels.say(neighbour, notice)
        self._plane.set_congested(self._congestion.waiting(now))
