"""The systems that the experiments compare, behind one face: Hermes, CovAdv, B-DRP.

Hermes and CovAdv run as networks of their machines. What B-DRP keeps and says follows from its rules and is counted:
every broker knows every other's interests (`LocalInterests`), each change of which crosses every link of the overlay,
the tree links once and the others twice; an event goes along shortest paths to the brokers that want it, each
link once.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from itertools import count
from typing import Protocol, assert_never

from tidings.experiments.hermes.world import HermesClient, HermesWorld
from tidings.kernel.codec import encode_message
from tidings.matching.encoding import Encoding
from tidings.model.codec import encode_predicate
from tidings.model.constraint import Constraint, Op
from tidings.model.destination import Destination
from tidings.model.event_type import EventType
from tidings.model.message import Message
from tidings.model.predicate import Predicate
from tidings.overlay.topology.graph import Graph, shortest_tree
from tidings.routing.bdrp.interests import InterestEncoding
from tidings.routing.bdrp.local_interests import LocalInterests
from tidings.routing.covering.messages import (
    AdvertisementId,
    CoveringAdvertise,
    CoveringHandOver,
    CoveringMessage,
    CoveringPublication,
    CoveringSubscribe,
    CoveringUnadvertise,
    CoveringUnsubscribe,
    FilterId,
    Join,
    Packed,
)
from tidings.routing.covering.policies import make_policy
from tidings.routing.hermes import HermesOptions
from tidings.routing.hermes.messages import HermesHandOver, HermesSubscriptionId
from tidings.routing.hermes.tables import ALWAYS
from tidings.sim.covering import CoveringNetwork
from tidings.sim.hermes import HermesNetwork

HERMES, COVADV_MST, COVADV_NEAREST, BDRP = "Hermes", "CovAdv MST", "CovAdv nearest", "B-DRP"
QUIET = HermesOptions(refresh_ms=1e12, lifetime_ms=1e15, settle_ms=1e12)  # nothing fails, nothing need be said again


@dataclass(slots=True)
class Trip:
    """Path of one event: the links it crossed, in order, and the number of subscriptions that got it at each broker."""

    source: int
    links: list[tuple[int, int]] = field(default_factory=list)
    notified: Counter[int] = field(default_factory=Counter)


@cache
def filter_of(name: str) -> Predicate:
    return Predicate.of(Constraint("kind", Op.EQ, name))


@cache
def event_of(name: str) -> bytes:
    return encode_message(Message(Destination.parse(name), {"kind": name}))


class System(Protocol):
    sent: Counter[str]  # advertisements, subscriptions, publications

    def advertise(self, clients: Iterable[HermesClient]) -> None: ...
    def subscribe(self, clients: Iterable[HermesClient]) -> None: ...
    def publish(self, broker: int, name: str) -> Trip: ...
    def tables(self) -> list[tuple[int, int]]:
        """Entries of advRT and subRT at each broker, after covering."""


class HermesSystem:
    def __init__(self, world: HermesWorld, types: Iterable[str]) -> None:
        self.network = HermesNetwork(world.pan(), QUIET)
        self.network.on_hand, self.network.on_publication = self._hand, self._crossed
        self.sent = self.network.sent
        self._tokens = count(1)
        self._trip = Trip(0)
        for name in types:
            effects = self.network.brokers[0].add_type(0.0, next(self._tokens), EventType(name))
            self.network.do(0, effects)
        self.network.calendar.run()

    def advertise(self, clients: Iterable[HermesClient]) -> None:
        for client in clients:
            broker = self.network.brokers[client.broker]
            for name in client.types:
                self.network.do(client.broker, broker.advertise(self.network.calendar.now, next(self._tokens), name))
            self.network.calendar.run()

    def subscribe(self, clients: Iterable[HermesClient]) -> None:
        for client in clients:
            broker = self.network.brokers[client.broker]
            for name in client.types:
                id, now = HermesSubscriptionId(client.broker, next(self._tokens)), self.network.calendar.now
                self.network.do(client.broker, broker.subscribe(now, next(self._tokens), id, name, ALWAYS))
            self.network.calendar.run()

    def publish(self, broker: int, name: str) -> Trip:
        self._trip = Trip(broker)
        now = self.network.calendar.now
        self.network.do(broker, self.network.brokers[broker].publish(now, name, event_of(name)))
        self.network.calendar.run()
        return self._trip

    def _hand(self, router: int, hand: HermesHandOver) -> None:
        self._trip.notified[router] += len(hand.subscriptions)

    def _crossed(self, source: int, to: int, publication: object) -> None:
        self._trip.links.append((source, to))

    def tables(self) -> list[tuple[int, int]]:
        return [broker.table_sizes() for broker in self.network.brokers.values()]


class CovAdvSystem:
    def __init__(self, tree: Graph) -> None:
        self.network = CoveringNetwork(
            tree,
            lambda: make_policy("active"),
            on_hand=self._hand,
            on_send=self._crossed,
            cover_advertisements=True,
        )
        self.network.calendar.run()
        self.sent: Counter[str] = Counter()
        self._numbers = count(1)
        self._own: dict[tuple[int, str], AdvertisementId] = {}
        self._trip = Trip(0)

    def advertise(self, clients: Iterable[HermesClient]) -> None:
        for client in clients:
            for name in client.types:
                id = AdvertisementId(client.broker, next(self._numbers))
                self._own[client.broker, name] = id
                self.network.tell(client.broker, CoveringAdvertise(id, filter_of(name)))
            self.network.calendar.run()

    def subscribe(self, clients: Iterable[HermesClient]) -> None:
        for client in clients:
            for name in client.types:
                id = FilterId(client.broker, next(self._numbers))
                self.network.tell(client.broker, CoveringSubscribe(id, filter_of(name)))
            self.network.calendar.run()

    def publish(self, broker: int, name: str) -> Trip:
        self._trip = Trip(broker)
        self.network.tell(broker, CoveringPublication(self._own[broker, name], 0, 0, event_of(name)))
        self.network.calendar.run()
        return self._trip

    def _hand(self, router: int, hand: CoveringHandOver) -> None:
        self._trip.notified[router] += len(hand.subscriptions)

    def _crossed(self, source: int, to: int, message: CoveringMessage) -> None:
        match message:
            case CoveringPublication():
                self.sent["publications"] += 1
                self._trip.links.append((source, to))
            case CoveringAdvertise():
                self.sent["advertisements"] += 1
            case CoveringSubscribe():
                self.sent["subscriptions"] += 1
            case CoveringUnadvertise() | CoveringUnsubscribe() | Packed() | Join():
                pass  # what is taken back is not counted for any system, nor are trees; this policy does not pack
            case _:
                assert_never(message)

    def tables(self) -> list[tuple[int, int]]:
        """Filters that differ; those of these experiments cover each other only if they are equal."""
        found = []
        for broker in self.network.brokers.values():
            advertised = {filter for filter, _ in broker.machine.advertisements.values()}
            found.append((len(advertised), len({entry.filter for entry in broker.machine.table.entries.values()})))
        return found


class BdrpSystem:
    def __init__(self, world: HermesWorld) -> None:
        self.sent: Counter[str] = Counter()
        self._graph = world.pan_graph
        links = len(list(self._graph.edges()))
        self._flood_messages = 2 * links - len(self._graph) + 1
        encoding = InterestEncoding(Encoding(), vectors=True)
        self._interests = [LocalInterests(encoding) for _ in range(world.count)]
        self._wanted: list[Counter[str]] = [Counter() for _ in range(world.count)]
        self._routes = cache(lambda source: shortest_tree(self._graph, source))

    def advertise(self, clients: Iterable[HermesClient]) -> None:
        """Publishers need not say anything."""

    def subscribe(self, clients: Iterable[HermesClient]) -> None:
        for client in clients:
            fresh = [name for name in client.types if not self._wanted[client.broker][name]]
            for name in fresh:
                self._interests[client.broker].add(encode_predicate(filter_of(name)))
            self._wanted[client.broker].update(client.types)
            self.sent["subscriptions"] += self._flood_messages if fresh else 0

    def publish(self, broker: int, name: str) -> Trip:
        trip = Trip(broker)
        before = self._routes(broker)
        links: dict[tuple[int, int], None] = {}
        for other, wanted in enumerate(self._wanted):
            if wanted[name]:
                trip.notified[other] = wanted[name]
                way = [other]
                while way[-1] != broker:
                    way.append(int(before[way[-1]]))
                links.update(((b, a), None) for a, b in zip(way[-2::-1], way[:0:-1], strict=True))
        trip.links = _in_order(broker, links)
        self.sent["publications"] += len(trip.links)
        return trip

    def tables(self) -> list[tuple[int, int]]:
        own = [len(interests.rows()) for interests in self._interests]
        return [(0, sum(own) - mine) for mine in own]


def _in_order(root: int, links: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The links of a tree from its root outwards."""
    below: dict[int, list[int]] = {}
    for a, b in links:
        below.setdefault(a, []).append(b)
    found, todo = [], [root]
    for node in todo:
        for other in below.get(node, ()):
            found.append((node, other))
            todo.append(other)
    return found


def make_system(name: str, world: HermesWorld, types: Iterable[str]) -> System:
    if name == HERMES:
        return HermesSystem(world, types)
    if name == BDRP:
        return BdrpSystem(world)
    return CovAdvSystem(world.spanning_tree if name == COVADV_MST else world.nearest_tree)
