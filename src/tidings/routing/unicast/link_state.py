"""Link-state unicast, the default: every router floods its links and computes shortest paths on the whole map.

The map is the topic LINKS of the reliable flood, which also carries other topics for schemes that want them
(`flood`). A link counts only if both of its ends say so (two-way check): a broker that crashed cannot take back what
it said, but its neighbours can. Of equal paths the one through the neighbour with the smallest number is taken.

>>> router = LinkStateUnicast(1, incarnation=1)
>>> _ = router.start(0.0), router.link_up(0.0, neighbour=2, cost=5)
>>> router.next_hop(2) is None  # 2 has not confirmed it yet
True
"""

import heapq
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

from tidings.errors import CodecError
from tidings.model.reader import Reader, put_varint
from tidings.overlay.effects import ControlMessage
from tidings.routing.control.flood import Flood, FloodOptions
from tidings.routing.control.messages import Topic
from tidings.routing.effects import Deliver, Effect, Install, Report, Route, Router, UnicastTable
from tidings.routing.unicast.protocol import COST_MAX, TIMER, check_link


@dataclass(frozen=True, slots=True)
class LinkStateOptions:
    publish_ms: float = 20  # several changes of one's own links within this time go into one item
    gap_ms: float = 100  # and never more often than this: when many links come up, each item crosses all of them
    compute_ms: float = 10  # the same for changes of the map and computing paths
    reverse_paths: bool = False  # compute as well whose broadcasts each neighbour takes from here


class LinkStateUnicast:
    def __init__(
        self,
        router: Router,
        incarnation: int,
        options: LinkStateOptions | None = None,
        flood_options: FloodOptions | None = None,
    ) -> None:
        self.router = router
        self.options = options or LinkStateOptions()
        self.flood = Flood(router, incarnation, flood_options, TIMER)
        self.table = UnicastTable({})
        self._links: dict[Router, int] = {}
        self._map: dict[Router, Mapping[Router, int]] = {}  # what the others say
        self._publish_at: float | None = None
        self._published_at = -inf
        self._compute_at: float | None = None

    @property
    def incarnation(self) -> int:
        return self.flood.incarnation

    @property
    def links(self) -> dict[Router, Mapping[Router, int]]:
        """The map of the network: who says to have which links at what cost."""
        return {**self._map, self.router: dict(self._links)}

    def start(self, now: float) -> list[Effect]:
        return []  # without links there is nothing to say and nobody to hear it

    def link_up(self, now: float, neighbour: Router, cost: int) -> list[Effect]:
        check_link(self.router, neighbour, cost)
        known = neighbour in self._links
        self._links[neighbour] = cost
        self._compute_at = now if self._compute_at is None else min(now, self._compute_at)
        out = [] if known else self.flood.link_up(now, neighbour)
        return self._later(now, out)

    def link_down(self, now: float, neighbour: Router) -> list[Effect]:
        self._links.pop(neighbour, None)
        out = self.flood.link_down(now, neighbour)
        return self._later(now, out + self._compute())  # at once: nothing must go to a dead neighbour

    def receive(self, now: float, neighbour: Router, message: ControlMessage) -> list[Effect]:
        return self._follow(now, self.flood.receive(now, neighbour, message)) + self._arm()

    def tick(self, now: float) -> list[Effect]:
        out = self._follow(now, self.flood.tick(now))
        if self._publish_at is not None and self._publish_at <= now:
            out += self._publish(now)
        if self._compute_at is not None and self._compute_at <= now:
            out += self._compute()
        return out + self._arm()

    def next_hop(self, router: Router) -> Router | None:
        route = self.table.routes.get(router)
        return route.next_hop if route else None

    def distance(self, router: Router) -> int | None:
        route = self.table.routes.get(router)
        return route.distance if route else 0 if router == self.router else None

    def reachable(self) -> list[Router]:
        return sorted(self.table.routes)

    def _follow(self, now: float, effects: list[Effect]) -> list[Effect]:
        """Take what is about links out of what the flood delivered."""
        out: list[Effect] = []
        for effect in effects:
            if isinstance(effect, Deliver) and effect.topic == Topic.LINKS:
                out += self._learn(now, effect)
            else:
                out.append(effect)
        return out

    def _learn(self, now: float, item: Deliver) -> list[Effect]:
        if self._compute_at is None:
            self._compute_at = now + self.options.compute_ms
        if item.payload is None:
            self._map.pop(item.origin, None)
            return []
        try:
            self._map[item.origin] = decode_links(item.payload)
        except CodecError as error:
            self._map.pop(item.origin, None)
            return [Report("E_LINKS_PAYLOAD", f"invalid links from router {item.origin}: {error}")]
        return []

    def _later(self, now: float, out: list[Effect]) -> list[Effect]:
        if self._publish_at is None:
            self._publish_at = max(now + self.options.publish_ms, self._published_at + self.options.gap_ms)
        return out + self._arm()

    def _arm(self) -> list[Effect]:
        due = [at for at in (self._publish_at, self._compute_at) if at is not None]
        return [*self.flood.alarm.arm(min(due, default=None))]

    def _publish(self, now: float) -> list[Effect]:
        self._publish_at, self._published_at = None, now
        return self.flood.publish(now, Topic.LINKS, encode_links(self._links))

    def _compute(self) -> list[Effect]:
        self._compute_at = None
        links = self.links
        table = UnicastTable(
            shortest_routes(self.router, links), takers(self.router, links) if self.options.reverse_paths else {}
        )
        if table == self.table:
            return []
        self.table = table
        return [Install(self.table)]


def takers(router: Router, links: Mapping[Router, Mapping[Router, int]]) -> dict[Router, tuple[Router, ...]]:
    """Of each neighbour the routers to which its own way leads through this one: it takes their broadcasts from here,
    and from nobody else (extended reverse-path forwarding).

    >>> takers(1, {1: {2: 1, 3: 1}, 2: {1: 1, 3: 1}, 3: {1: 1, 2: 1}})
    {2: (1,), 3: (1,)}
    """
    confirmed = [one for one in links[router] if router in links.get(one, {})]
    return {one: _through(router, shortest_routes(one, links)) for one in confirmed}


def _through(router: Router, routes: Mapping[Router, Route]) -> tuple[Router, ...]:
    return tuple(sorted(to for to, route in routes.items() if route.next_hop == router))


def shortest_routes(source: Router, links: Mapping[Router, Mapping[Router, int]]) -> dict[Router, Route]:
    """Dijkstra from `source` over links that both ends confirm; ties go to the smallest next hop.

    >>> shortest_routes(1, {1: {2: 5, 3: 5}, 2: {1: 5, 4: 5}, 3: {1: 5, 4: 5}, 4: {3: 5, 2: 5}})[4]
    Route(next_hop=2, distance=10)
    """
    nobody: Mapping[Router, int] = {}
    routes: dict[Router, Route] = {}
    done = {source}
    heap = [(cost, peer, peer) for peer, cost in links[source].items() if source in links.get(peer, nobody)]
    heapq.heapify(heap)
    while heap:
        distance, next_hop, node = heapq.heappop(heap)
        if node in done:
            continue
        done.add(node)
        routes[node] = Route(next_hop, distance)
        for peer, cost in links[node].items():
            if peer not in done and node in links.get(peer, nobody):
                heapq.heappush(heap, (distance + cost, next_hop, peer))
    return routes


def encode_links(links: Mapping[Router, int]) -> bytes:
    out = bytearray()
    put_varint(out, len(links))
    for neighbour, cost in sorted(links.items()):
        put_varint(out, neighbour)
        put_varint(out, cost)
    return bytes(out)


def decode_links(data: bytes) -> dict[Router, int]:
    reader, last = Reader(data, family="CONTROL"), -1
    links: dict[Router, int] = {}
    for _ in range(reader.count()):
        at = reader.position
        neighbour, cost = reader.varint(0xFFFF_FFFF), reader.varint(COST_MAX)
        if neighbour <= last or cost < 1:
            reader.fail("LINKS", "neighbours do not ascend, or a cost of 0", at)
        last = neighbour
        links[neighbour] = cost
    reader.finish("the message")
    return links
