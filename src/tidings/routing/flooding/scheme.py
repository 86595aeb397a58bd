"""Controlled flooding, as ActiveMQ's network of brokers does it: the scheme to compare with.

A broker passes a message to every neighbour behind which somebody is interested; each broker matches it again, and
drops it when it comes a second time. "Behind" a neighbour are the routers that can be reached through it without coming
back here; in a ring that is everyone on both sides, which is what makes this scheme expensive where there are cycles.

Advertisement is B-DRP's. Only the tables differ: rows lead to neighbours, not to routers. The map of the network comes
from link-state unicast, and is looked at again every `REFRESH_MS`, since links that no route uses matter here too.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set

from tidings.routing.bdrp.interests import InterestEncoding
from tidings.routing.bdrp.local_interests import LocalInterests
from tidings.routing.bdrp.scheme import Bdrp, BdrpOptions
from tidings.routing.control.flood import Flood
from tidings.routing.control.messages import SchemeMessage
from tidings.routing.control.single_timer import without_timer
from tidings.routing.effects import Deliver, Effect, Router, SetTimer, UnicastTable
from tidings.routing.scheme import TIMER, Tables


class _Ledger:
    """Keeps what B-DRP would install; `Flooding` installs something else."""

    def interest(self, router: Router, added: Collection[bytes], removed: Collection[bytes]) -> None: ...
    def forget(self, router: Router) -> None: ...
    def routes(self, next_hops: Mapping[Router, Router]) -> None: ...


REFRESH_MS = 200.0


class Flooding:
    def __init__(
        self,
        flood: Flood,
        encoding: InterestEncoding,
        tables: Tables,
        links: Callable[[], Mapping[Router, Mapping[Router, int]]],
        options: BdrpOptions | None = None,
    ) -> None:
        self._bdrp = Bdrp(flood, encoding, _Ledger(), options)
        self._router = flood.router
        self._tables = tables
        self._links = links
        self._installed: dict[Router, set[bytes]] = {}
        self._looked: tuple[Mapping[Router, Mapping[Router, int]], int] = {}, -1  # what `_installed` was made from

    @property
    def predicates(self) -> Mapping[Router, Set[bytes]]:
        return self._bdrp.predicates

    def payloads(self, router: Router) -> Mapping[int, Sequence[bytes]]:
        return self._bdrp.payloads(router)

    @property
    def local(self) -> LocalInterests:
        return self._bdrp.local

    def local_rows(self) -> set[bytes]:
        return self._bdrp.local_rows()

    @property
    def announced(self) -> bool:
        return self._bdrp.announced

    @property
    def applied(self) -> bool:
        return (self._links(), self._bdrp.changes) == self._looked

    def counts(self) -> Mapping[str, int]:
        return {"rows": sum(map(len, self._installed.values()))}

    def start(self, now: float) -> list[Effect]:
        return [*self._bdrp.start(now), SetTimer(TIMER, now)]

    def subscribe(self, now: float, predicate: bytes) -> list[Effect]:
        return without_timer(TIMER, self._bdrp.subscribe(now, predicate))

    def unsubscribe(self, now: float, predicate: bytes) -> list[Effect]:
        return without_timer(TIMER, self._bdrp.unsubscribe(now, predicate))

    def narrow(self, now: float, predicates: Iterable[bytes]) -> list[Effect]:
        return without_timer(TIMER, self._bdrp.narrow(now, predicates))

    def learn(self, now: float, item: Deliver | tuple[Router, SchemeMessage]) -> list[Effect]:
        return without_timer(TIMER, self._bdrp.learn(now, item))

    def forget(self, now: float, router: Router) -> list[Effect]:
        return self._bdrp.forget(now, router)

    def routed(self, now: float, table: UnicastTable) -> list[Effect]:
        self._tables.routes({router: route.next_hop for router, route in table.routes.items()})
        return []

    def tick(self, now: float) -> list[Effect]:
        """This scheme's clock ticks all the time, and takes B-DRP's along."""
        out = without_timer(TIMER, self._bdrp.tick(now))
        self._refresh()
        return [*out, SetTimer(TIMER, now + REFRESH_MS)]

    def _refresh(self) -> None:
        links = self._links()
        if (links, self._bdrp.changes) == self._looked:
            return
        self._looked = {router: dict(ends) for router, ends in links.items()}, self._bdrp.changes
        wanted: dict[Router, set[bytes]] = {}
        for neighbour in links.get(self._router, {}):
            rows: set[bytes] = set()
            for router in behind(links, self._router, neighbour):
                rows.update(self._bdrp.predicates.get(router, ()))
            wanted[neighbour] = rows
        for neighbour in self._installed.keys() - wanted.keys():
            self._tables.forget(neighbour)
        for neighbour, rows in wanted.items():
            before = self._installed.get(neighbour, set())
            if rows != before:
                self._tables.interest(neighbour, rows - before, before - rows)
        self._installed = wanted


def behind(links: Mapping[Router, Mapping[Router, int]], me: Router, neighbour: Router) -> set[Router]:
    """Returns the routers reached through the neighbour without coming back here, over links that both ends confirm.

    >>> sorted(behind({1: {2: 1, 3: 1}, 2: {1: 1, 4: 1}, 3: {1: 1}, 4: {2: 1}}, 1, 2))
    [2, 4]
    """
    if me not in links.get(neighbour, {}):
        return set()
    found, todo = {neighbour}, [neighbour]
    while todo:
        node = todo.pop()
        for peer in links.get(node, {}):
            if peer != me and peer not in found and node in links.get(peer, {}):
                found.add(peer)
                todo.append(peer)
    return found
