"""The tables that a routing scheme fills, in the plane and where messages are in transit."""

from collections.abc import Callable, Collection, Mapping, Sequence

from tidings.node.network.notes import NetworkNotes
from tidings.node.network.settings import NetworkSettings
from tidings.node.network.store_and_forward import StoreAndForward
from tidings.node.plane import NetworkPlane
from tidings.overlay.effects import Router


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
