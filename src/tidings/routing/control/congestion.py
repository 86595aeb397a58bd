"""Push-back along the path: publishers wait while the way to a destination, or its subscribers, are full.

A broker whose subscribers do not keep up, or whose link is full of what passes through, says so to its neighbours: it
names the destinations that are congested by way of it. Each neighbour holds the publishers there whose messages are for
one of these and go by that way, and tells its own neighbours in turn. So the news runs back along the tree of routes to
each destination, and reaches exactly those publishers whose messages take that way; all others go on. What is under way
meanwhile is taken: a full queue takes more of other brokers than of publishers of its own.

    publisher ──► entry ══full══► transit ──► destination      destination, transit: Congested({destination}) back

Links are always read, so that two full links never wait for each other. What was heard expires unless it is repeated,
and ends with its link: nobody waits for what a broker forgot to take back.

>>> congestion = Congestion(router=2)
>>> congestion.routed({1: 1, 3: 3, 4: 3})
>>> congestion.heard(0.0, 3, (3, 4, 1))
>>> congestion.waiting(0.0)  # not 1: it lies the other way
[3, 4]
>>> congestion.notices(0.0, [1, 3], here=False, full=[])  # 3 knows already
[(1, Congested(routers=(3, 4)))]
>>> congestion.waiting(EXPIRE_MS)
[]
"""

from collections.abc import Collection, Mapping

from tidings.overlay.effects import Router
from tidings.routing.control.messages import Congested

EXPIRE_MS = 4000.0
REPEAT_MS = 1000.0


class Congestion:
    def __init__(self, router: Router) -> None:
        self._router = router
        self._next_hops: Mapping[Router, Router] = {}
        self._heard: dict[Router, tuple[frozenset[Router], float]] = {}  # by neighbour, and when
        self._said: dict[Router, tuple[tuple[Router, ...], float]] = {}  # by neighbour, and when

    def routed(self, next_hops: Mapping[Router, Router]) -> None:
        self._next_hops = next_hops

    def heard(self, now: float, neighbour: Router, routers: Collection[Router]) -> None:
        self._heard[neighbour] = frozenset(routers), now

    def link_down(self, neighbour: Router) -> None:
        self._heard.pop(neighbour, None)
        self._said.pop(neighbour, None)

    def waiting(self, now: float) -> list[Router]:
        """The destinations whose publishers here must wait."""
        fresh = ((neighbour, routers) for neighbour, (routers, at) in self._heard.items() if now < at + EXPIRE_MS)
        return sorted({one for hop, routers in fresh for one in routers if self._next_hops.get(one) == hop})

    def notices(
        self, now: float, neighbours: Collection[Router], *, here: bool, full: Collection[Router]
    ) -> list[tuple[Router, Congested]]:
        """Returns what neighbours must hear now. `here`: subscribers of this broker do not keep up; `full`: the links
        that do not."""
        behind = {router for router, hop in self._next_hops.items() if hop in full} if full else set()
        congested = behind.union(self.waiting(now), (self._router,) if here else ())
        found = []
        for neighbour in neighbours:
            routers = tuple(
                sorted(one for one in congested if one != neighbour and self._next_hops.get(one) != neighbour)
            )
            before, at = self._said.get(neighbour, ((), now))
            if routers != before or (routers and now >= at + REPEAT_MS):
                self._said[neighbour] = routers, now
                found.append((neighbour, Congested(routers)))
        return found
