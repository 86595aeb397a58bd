"""Unicast: for every router of the network, the neighbour through which it is reached soonest.

The interface that link-state (the default) and distance-vector share. A machine learns when links to neighbours come
and go, hears the neighbours' messages, and answers with effects; whenever routes change it gives
`Install(UnicastTable)`. Costs are whole numbers from 1 to COST_MAX. What both promise once things are quiet:

- `distance` is the least sum of costs, and `next_hop` lies on such a path: no loops;
- routers that cannot be reached have neither.

A broadcast of a router is taken from the next hop to it only: these hops form a tree, so each copy comes once.

The owner calls `start` once, `tick` when the timer `TIMER` rings, and `link_up` again when a cost changes.
"""

from typing import Protocol

from tidings.errors import UsageError
from tidings.overlay.effects import ControlMessage
from tidings.routing.effects import Effect, Router

TIMER = "unicast"
COST_MAX = 1 << 20
INFINITY = (1 << 32) - 1  # a distance that is none
ROUTERS_MAX = 1 << 16


class Unicast(Protocol):
    @property
    def router(self) -> Router: ...

    @property
    def incarnation(self) -> int:
        """Of this router, as it tells others: it grows when someone else spoke in its name."""
        ...

    def start(self, now: float) -> list[Effect]: ...

    def link_up(self, now: float, neighbour: Router, cost: int) -> list[Effect]: ...

    def link_down(self, now: float, neighbour: Router) -> list[Effect]: ...

    def receive(self, now: float, neighbour: Router, message: ControlMessage) -> list[Effect]: ...

    def tick(self, now: float) -> list[Effect]: ...

    def next_hop(self, router: Router) -> Router | None: ...

    def distance(self, router: Router) -> int | None: ...

    def reachable(self) -> list[Router]:
        """The other routers with a route, in order."""
        ...


def check_link(router: Router, neighbour: Router, cost: int) -> None:
    if not 1 <= cost <= COST_MAX:
        raise UsageError("E_UNICAST_COST", f"cost {cost} of the link to {neighbour} must be from 1 to {COST_MAX}")
    if neighbour == router:
        raise UsageError("E_LINK_SELF", f"router {router} cannot be linked to itself")
