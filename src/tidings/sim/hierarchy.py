"""A thousand routers and more in virtual time: flat B-DRP, or two levels of it (tidings.routing.bdrp.hierarchy).

The machines are the ones that ship: link-state, flood and B-DRP, joined to a border where there is one. What is left
out are links and clients: a link is up from the beginning and takes `LATENCY_MS`. Records cross it, but what they
would weigh as bytes is counted.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import assert_never

from tidings.matching.encoding import Encoding
from tidings.matching.graded import GradedGrade
from tidings.model.codec import encode_predicate
from tidings.model.predicate import Predicate
from tidings.overlay.effects import ControlMessage
from tidings.overlay.pan.messages import PanTell
from tidings.overlay.topology.graph import Graph
from tidings.routing.bdrp.hierarchy import Border
from tidings.routing.bdrp.interests import InterestEncoding
from tidings.routing.bdrp.scheme import Bdrp
from tidings.routing.control.codec import encode
from tidings.routing.control.flood import FloodOptions
from tidings.routing.control.messages import FloodAck, FloodItem
from tidings.routing.effects import (
    AskKey,
    Deliver,
    Effect,
    HandOver,
    Install,
    Passed,
    Router,
    RoutingOutcome,
    Safe,
    Send,
)
from tidings.routing.scheme import TIMER as SCHEME_TIMER
from tidings.routing.unicast.link_state import LinkStateOptions, LinkStateUnicast
from tidings.sim.calendar import Calendar
from tidings.sim.harness import Adapter, Carried, Harness, each_to_each

LATENCY_MS = 5.0
ROWS_MAX = 256
ONCE = FloodOptions(lifetime_ms=7_200_000, renew_ms=3.6e6, summary_ms=3.6e6)  # what changes cost, without upkeep
PATIENT = LinkStateOptions(compute_ms=250)  # all brokers start at once: paths are computed when most have spoken


@dataclass(frozen=True, slots=True)
class HierarchyLayout:
    """Areas are networks of their own: clusters and the backbone, or one for all. Routers may be in two of them."""

    areas: tuple[Graph, ...]
    backbone: int | None = None  # which area is

    @property
    def borders(self) -> set[Router]:
        return set() if self.backbone is None else {int(node) for node in self.areas[self.backbone]}

    @property
    def routers(self) -> list[Router]:
        return sorted({int(node) for area in self.areas for node in area})


@dataclass(eq=False)
class Area:
    """One router's part in one area."""

    number: int  # of the area
    router: Router
    unicast: LinkStateUnicast
    scheme: Bdrp = field(init=False)
    border: Border | None = None
    dirty: bool = False

    def interest(self, router: Router, added: Collection[bytes], removed: Collection[bytes]) -> None:
        self.dirty = True

    def forget(self, router: Router) -> None:
        self.dirty = True

    def routes(self, next_hops: Mapping[Router, Router]) -> None: ...

    @property
    def key(self) -> tuple[int, Router]:
        return self.number, self.router

    @property
    def rows(self) -> int:
        return sum(map(len, self.scheme.predicates.values()))


class Hierarchy(Adapter[Area, RoutingOutcome]):
    def __init__(self, layout: HierarchyLayout, rows_max: int = ROWS_MAX) -> None:
        self.layout, self.rows_max = layout, rows_max
        self.calendar = Calendar()
        self.encoding = InterestEncoding(Encoding(grade=GradedGrade()), vectors=False)
        self.messages = self.bytes = 0  # of advertisements and routes, over all links
        self.places: dict[tuple[int, Router], Area] = {}
        self._harnesses = [Harness(each_to_each(self.calendar, lambda a, b: LATENCY_MS), self) for _ in layout.areas]
        self._sizes: dict[object, int] = {}
        self._thinking: set[Router] = set()  # borders that have news to think about
        for number, graph in enumerate(layout.areas):
            for node in graph:
                unicast = LinkStateUnicast(int(node), 1, PATIENT, ONCE)
                place = self.places[number, int(node)] = Area(number, int(node), unicast)
                place.scheme = Bdrp(place.unicast.flood, self.encoding, place)
        self._join_borders()
        for (number, router), place in self.places.items():
            self._harnesses[number].run(router, place)
        for number, graph in enumerate(layout.areas):
            for edge in graph.edges():
                for a, b in ((int(edge.a), int(edge.b)), (int(edge.b), int(edge.a))):
                    self._do((number, a), self.places[number, a].unicast.link_up(0.0, b, 1))

    def _join_borders(self) -> None:
        for router in self.layout.borders:
            assert self.layout.backbone is not None
            [home] = [number for number, at in self.places if at == router and number != self.layout.backbone]
            inside, outside = self.places[home, router], self.places[self.layout.backbone, router]
            inside.border = outside.border = Border(inside.scheme, outside.scheme, self.rows_max)

    def home(self, router: Router) -> int:
        """The area of a router's clients."""
        return next(number for number, at in self.places if at == router and number != self.layout.backbone)

    def subscribe(self, router: Router, predicate: Predicate) -> None:
        key = self.home(router), router
        self._do(key, self.places[key].scheme.subscribe(self.calendar.now, encode_predicate(predicate)))
        self._bridge(key, always=True)

    def unsubscribe(self, router: Router, predicate: Predicate) -> None:
        key = self.home(router), router
        self._do(key, self.places[key].scheme.unsubscribe(self.calendar.now, encode_predicate(predicate)))
        self._bridge(key, always=True)

    def run(self, ms: float) -> None:
        self.calendar.run(until=self.calendar.now + ms)

    # --- the machines in the harness ------------------------------------------------------------------------------

    def _do(self, key: tuple[int, Router], effects: Iterable[Carried | RoutingOutcome]) -> None:
        self._harnesses[key[0]].do(key[1], effects)
        self._bridge(key)

    def start(self, now: float, machine: Area) -> Iterable[Effect]:
        return [*machine.unicast.start(now), *machine.scheme.start(now)]

    def tick(self, now: float, machine: Area, timer: str) -> Iterable[Effect]:
        self._do(machine.key, machine.scheme.tick(now) if timer == SCHEME_TIMER else machine.unicast.tick(now))
        return ()

    def receive(self, now: float, machine: Area, source: Router, parcel: ControlMessage) -> Iterable[Effect]:
        return machine.unicast.receive(now, source, parcel)

    def pack(self, source: Router, effect: Send | PanTell) -> ControlMessage:
        self.messages += 1
        self.bytes += self._size(effect.message)
        return effect.message

    def handle(self, machine: Area, effect: RoutingOutcome) -> None:
        match effect:
            case Install(table=table):
                self._do(machine.key, machine.scheme.routed(self.calendar.now, table))
            case Deliver():
                self._do(machine.key, machine.scheme.learn(self.calendar.now, effect))
            case HandOver() | AskKey() | Safe() | Passed():
                raise AssertionError(f"{effect} is an effect of schemes that carry messages")
            case _:
                assert_never(effect)

    def _size(self, message: ControlMessage) -> int:
        """Of its bytes. A flood brings the same item, and its acknowledgement, over every link: counted once."""
        match message:
            case FloodItem(topic=topic, origin=origin, version=version, lifetime_ms=left_ms, full=full):
                about: object = topic, origin, version, full, left_ms.bit_length() // 7
            case FloodAck(topic=topic, origin=origin, version=version):
                about = topic, origin, version
            case _:
                return len(encode(message))  # type: ignore[arg-type]
        size = self._sizes.get(about)
        if size is None:
            size = self._sizes[about] = len(encode(message))
        return size

    def _bridge(self, key: tuple[int, Router], *, always: bool = False) -> None:
        """A border that learned something thinks about it once a moment has passed, not for each piece of news."""
        place = self.places[key]
        if place.border is not None and (place.dirty or always):
            place.dirty = False
            if key[1] not in self._thinking:
                self._thinking.add(key[1])
                self.calendar.after(place.scheme.options.coalesce_ms, self._rethink, key)

    def _rethink(self, key: tuple[int, Router]) -> None:
        place = self.places[key]
        assert place.border is not None
        assert self.layout.backbone is not None
        self._thinking.discard(key[1])
        inside, outside = place.border.changed(self.calendar.now)
        self._do((self.home(key[1]), key[1]), inside)
        self._do((self.layout.backbone, key[1]), outside)
