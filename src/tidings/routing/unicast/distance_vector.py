"""Distance-vector unicast: routers tell their neighbours how far everything is, and nothing else.

What plagues these protocols is counting to infinity: two routers that each believe the way leads through the other.
Split horizon with poisoned reverse stops that between two, not among three. So routes carry a version which only
their destination raises, and a router keeps for each destination its *feasible distance*: the least it has told
anybody under the latest version. A neighbour's route is taken only if it is newer, or of the same version and shorter
than that; whoever routes through us has been told at least as much, so no loop can close (EIGRP's source node condition
and DSDV's sequence numbers, joined as in Babel, RFC 8966 sections 2.4 to 2.7).

The price: after a failure the only way left may look too long. A router that sees such a way, or a better one it
may not take, asks the destination through it to raise its version (`VectorRequest`), repeatedly until served.

A lost destination is announced at once (INFINITY) and held down: its feasible distance is remembered for
`hold_ms`, in which stale news of it is not believed. A router that hears of an incarnation of itself that is later than
its own takes a later one still, as the flood does (flood.py). Updates name changed routes, a moment after the change;
a whole table goes to a new neighbour and to all now and then.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

from tidings.errors import UsageError
from tidings.overlay.effects import ControlMessage
from tidings.routing.control.flood import INCARNATION_MAX, stolen_number
from tidings.routing.control.messages import VectorRequest, VectorRoute, VectorUpdate, Version
from tidings.routing.control.single_timer import SingleTimer
from tidings.routing.effects import Effect, Install, Report, Route, Router, Send, UnicastTable
from tidings.routing.unicast.protocol import INFINITY, ROUTERS_MAX, TIMER, check_link

HOPS_MAX = 255


@dataclass(frozen=True, slots=True)
class DistanceVectorOptions:
    update_ms: float = 20  # changes within this time go into one update
    whole_ms: float = 15_000
    request_ms: float = 500
    hold_ms: float = 60_000
    overrule_ms: float = 5_000  # between two times that a later incarnation of this router is overruled


class _Heard(NamedTuple):
    version: Version
    distance: int


class _Chosen(NamedTuple):
    next_hop: Router
    version: Version
    distance: int  # the neighbour's and the cost of the link to it


@dataclass(slots=True)
class _Want:
    version: Version
    ask_at: float


class DistanceVector:
    def __init__(self, router: Router, incarnation: int, options: DistanceVectorOptions | None = None) -> None:
        self.router = router
        self.options = options or DistanceVectorOptions()
        self.table = UnicastTable({})
        self._version = Version(incarnation, 1)
        self._alarm = SingleTimer(TIMER)
        self._costs: dict[Router, int] = {}
        self._heard: dict[Router, dict[Router, _Heard]] = {}  # destination → neighbour → what it says
        self._feasible: dict[Router, _Heard] = {}
        self._chosen: dict[Router, _Chosen] = {}
        self._changed: set[Router] = set()  # to be told
        self._wants: dict[Router, _Want] = {}
        self._passed: dict[tuple[Router, Version], float] = {}  # requests passed on, until when not again
        self._hold_until: dict[Router, float] = {}
        self._update_at: float | None = None
        self._whole_at: float | None = None
        self._stale_table = False
        self._stranger = 0  # an incarnation that others know of this router, and that is not its own
        self._overrule_at: float | None = None
        self._overruled_at = -inf

    @property
    def incarnation(self) -> int:
        return self._version.incarnation

    # The doors.

    def start(self, now: float) -> list[Effect]:
        self._whole_at = now + self.options.whole_ms
        return self._done(now, [])

    def link_up(self, now: float, neighbour: Router, cost: int) -> list[Effect]:
        check_link(self.router, neighbour, cost)
        known = neighbour in self._costs
        self._costs[neighbour] = cost
        if known:
            self._choose(now, [one for one, heard in self._heard.items() if neighbour in heard])
        return self._done(now, [] if known else [self._tell(neighbour, None)])

    def link_down(self, now: float, neighbour: Router) -> list[Effect]:
        self._costs.pop(neighbour, None)
        lost = [one for one, heard in self._heard.items() if heard.pop(neighbour, None)]
        self._choose(now, lost)
        return self._done(now, [])

    def receive(self, now: float, neighbour: Router, message: ControlMessage) -> list[Effect]:
        if neighbour not in self._costs:
            return []  # said before its link went down
        match message:
            case VectorUpdate():
                return self._done(now, list(self._receive_update(now, neighbour, message)))
            case VectorRequest():
                return self._done(now, list(self._receive_request(now, neighbour, message)))
            case _:
                raise UsageError("E_UNICAST_MESSAGE", f"{type(message).__name__} is not a distance-vector message")

    def tick(self, now: float) -> list[Effect]:
        self._alarm.rang()
        out: list[Effect] = []
        if self._whole_at is not None and self._whole_at <= now:
            self._whole_at = now + self.options.whole_ms
            out += [self._tell(neighbour, None) for neighbour in self._costs]
        if self._overrule_at is not None and self._overrule_at <= now:
            out += self._overrule(now)
        if self._update_at is not None and self._update_at <= now:
            out += self._update()
        for destination, want in self._wants.items():
            if want.ask_at <= now:
                want.ask_at = now + self.options.request_ms
                out += self._ask(VectorRequest(destination, want.version, HOPS_MAX), source=None)
        self._passed = {key: until for key, until in self._passed.items() if until > now}
        for destination in [one for one, until in self._hold_until.items() if until <= now]:
            self._forget(now, destination)
        return self._done(now, out)

    def next_hop(self, router: Router) -> Router | None:
        route = self._chosen.get(router)
        return route.next_hop if route else None

    def distance(self, router: Router) -> int | None:
        route = self._chosen.get(router)
        return route.distance if route else 0 if router == self.router else None

    def reachable(self) -> list[Router]:
        return sorted(self._chosen)

    # Choosing.

    def _choose(self, now: float, destinations: Iterable[Router]) -> None:
        for destination in destinations:
            best, blocked = self._best(destination)
            if best != self._chosen.get(destination):
                if best is None:
                    del self._chosen[destination]
                    self._hold_until[destination] = now + self.options.hold_ms
                else:
                    self._chosen[destination] = best
                    self._hold_until.pop(destination, None)
                self._changed.add(destination)
                self._stale_table = True
            self._want(now, destination, blocked)

    def _best(self, destination: Router) -> tuple[_Chosen | None, bool]:
        """The shortest route that may be taken, and whether a shorter one, or any if there is none, may not be.

        A shorter route of an older version does not count: the newer version is on its way to that neighbour. Asking
        for yet another would only start the race again, and the slower path would lose it each time.
        """
        told = self._feasible.get(destination)
        best: _Chosen | None = None
        barred = stale = INFINITY
        for neighbour, (version, said) in self._heard[destination].items():
            distance = said + self._costs[neighbour]
            if told is None or version > told.version or (version == told.version and said < told.distance):
                if distance < INFINITY and (best is None or (distance, neighbour) < (best.distance, best.next_hop)):
                    best = _Chosen(neighbour, version, distance)
            elif version == told.version:
                barred = min(barred, distance)
            else:
                stale = min(stale, distance)
        return best, barred < best.distance if best else min(barred, stale) < INFINITY

    def _want(self, now: float, destination: Router, blocked: bool) -> None:
        if not blocked:
            self._wants.pop(destination, None)
            return
        known = self._feasible[destination].version
        version = Version(known.incarnation, known.sequence + 1)
        want = self._wants.get(destination)
        if want is None or want.version != version:
            self._wants[destination] = _Want(version, now)

    def _forget(self, now: float, destination: Router) -> None:
        del self._hold_until[destination]
        self._feasible.pop(destination, None)
        self._wants.pop(destination, None)
        self._changed.discard(destination)
        if self._heard[destination]:  # nobody served our requests: believe what is left
            self._choose(now, [destination])
        else:
            del self._heard[destination]

    # Hearing.

    def _receive_update(self, now: float, neighbour: Router, update: VectorUpdate) -> Iterator[Effect]:
        touched = []
        for destination, version, distance in update.routes:
            if destination == self.router:
                yield from self._heard_of_self(now, version)
                continue
            heard = self._heard.get(destination)
            if heard is None:
                if distance == INFINITY or len(self._heard) >= ROUTERS_MAX:
                    continue
                heard = self._heard[destination] = {}
            if distance == INFINITY:
                heard.pop(neighbour, None)
            else:
                heard[neighbour] = _Heard(version, distance)
            touched.append(destination)
        if update.whole:
            named = {route.destination for route in update.routes}
            for destination, others in self._heard.items():
                if destination not in named and neighbour in others:
                    del others[neighbour]
                    touched.append(destination)
        self._choose(now, touched)

    def _receive_request(self, now: float, neighbour: Router, request: VectorRequest) -> Iterator[Effect]:
        destination, version, hops_left = request.destination, request.version, request.hops_left
        if destination == self.router:
            if version > self._version and version.incarnation == self._version.incarnation:
                self._version = version
                self._changed.add(self.router)
            elif version.incarnation > self._version.incarnation:
                yield from self._heard_of_self(now, version)
            else:
                yield self._tell(neighbour, [self.router])
            return
        chosen = self._chosen.get(destination)
        if chosen and chosen.version >= version and chosen.next_hop != neighbour:
            yield self._tell(neighbour, [destination])
        elif hops_left > 1 and self._passed.get((destination, version), 0.0) <= now:
            self._passed[destination, version] = now + self.options.request_ms / 2
            yield from self._ask(VectorRequest(destination, version, hops_left - 1), neighbour)

    def _heard_of_self(self, now: float, version: Version) -> Iterator[Effect]:
        if version.incarnation > self._version.incarnation:
            self._stranger = max(self._stranger, version.incarnation)
            self._overrule_at = max(now, self._overruled_at + self.options.overrule_ms)
            if self._overrule_at <= now:
                yield from self._overrule(now)

    def _overrule(self, now: float) -> list[Effect]:
        self._overrule_at, self._overruled_at = None, now
        incarnation = max(self.incarnation, min(self._stranger + 1, INCARNATION_MAX))
        self._version = Version(incarnation, 1)
        self._changed.add(self.router)
        return [Report("E_UNICAST_IDENTITY", stolen_number(self.router))]

    def _ask(self, request: VectorRequest, source: Router | None) -> Iterator[Effect]:
        """Along the route if there is one, otherwise to every neighbour that claims to have one."""
        chosen = self._chosen.get(request.destination)
        if source is not None and chosen and chosen.next_hop != source:
            yield Send(chosen.next_hop, request)
            return
        for neighbour in self._heard.get(request.destination, {}):
            if neighbour != source:
                yield Send(neighbour, request)

    # Telling.

    def _tell(self, neighbour: Router, destinations: Iterable[Router] | None) -> Send:
        """Returns an update; None: of everything. What is in it counts from now on as feasible distance."""
        whole = destinations is None
        names = [self.router, *self._chosen] if destinations is None else destinations
        return Send(neighbour, VectorUpdate(tuple(self._route(name, neighbour) for name in names), whole))

    def _route(self, destination: Router, neighbour: Router) -> VectorRoute:
        if destination == self.router:
            return VectorRoute(destination, self._version, 0)
        chosen = self._chosen.get(destination)
        if chosen is None:
            told = self._feasible.get(destination)
            return VectorRoute(destination, told.version if told else Version(0, 0), INFINITY)
        if chosen.next_hop == neighbour:
            return VectorRoute(destination, chosen.version, INFINITY)  # poisoned reverse
        told = self._feasible.get(destination)
        if told is None or (chosen.version, -chosen.distance) > (told.version, -told.distance):
            self._feasible[destination] = _Heard(chosen.version, chosen.distance)
        return VectorRoute(destination, chosen.version, chosen.distance)

    def _update(self) -> list[Effect]:
        self._update_at = None
        changed, self._changed = sorted(self._changed), set()
        return [self._tell(neighbour, changed) for neighbour in self._costs] if changed else []

    def _done(self, now: float, out: list[Effect]) -> list[Effect]:
        if self._stale_table:
            self._stale_table = False
            routes = {one: Route(chosen.next_hop, chosen.distance) for one, chosen in sorted(self._chosen.items())}
            if routes != self.table.routes:
                self.table = UnicastTable(routes)
                out.append(Install(self.table))
        if self._changed and self._update_at is None:
            self._update_at = now + self.options.update_ms
        due = [at for at in (self._update_at, self._whole_at, self._overrule_at) if at is not None]
        due += [want.ask_at for want in self._wants.values()] + list(self._hold_until.values())
        return out + self._alarm.arm(min(due, default=None))
