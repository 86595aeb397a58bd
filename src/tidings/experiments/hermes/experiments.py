"""The experiments E1 to E4 on Hermes, after section 5 of the paper; Hermes, CovAdv and B-DRP side by side.

A *point* is one number that one system gave in one seeded run for one value of what is varied. Clients only ever come,
so one run serves all values: at each, what is asked for is measured.

What is measured per notification (E1; a broker that gets an event for its clients is notified once):
`hops` and `cost_ms`: links crossed by the event, and their latency, all together, a notification; the more brokers want
it, the nearer to one hop. `latency_ms` and `path_hops`: from the publisher's broker to the notified one.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tidings.experiments.hermes.systems import (
    BDRP,
    COVADV_MST,
    COVADV_NEAREST,
    HERMES,
    System,
    Trip,
    make_system,
)
from tidings.experiments.hermes.world import HermesClient, HermesWorld

THREE = (HERMES, COVADV_MST, BDRP)  # the tree matters only for E1
FOUR = (HERMES, COVADV_MST, COVADV_NEAREST, BDRP)


@dataclass(frozen=True, slots=True)
class HermesPoint:
    experiment: str
    seed: int
    system: str
    x: int  # what is varied: subscribers, publishers or brokers; of E3 the broker
    metric: str
    value: float


@dataclass(frozen=True, slots=True)
class HermesScale:
    """The paper's sizes, or smaller ones."""

    brokers: int = 500
    systems: int = 10  # autonomous systems
    nodes_each: int = 100
    e1_subscribers: tuple[int, ...] = (10, 25, 50, 100, 200, 300, 400, 500)
    e2_clients: tuple[int, ...] = (100, 250, 500, 1000, 2000, 3500, 5000)
    e2_brokers: tuple[int, ...] = (50, 100, 200, 350, 500, 750, 1000)
    e3_subscribers: int = 1000
    e4_types: int = 100
    e4_types_each: int = 10
    e4_events: int = 100

    def world(self, seed: int, brokers: int | None = None) -> HermesWorld:
        return HermesWorld(seed, brokers or self.brokers, self.systems, self.nodes_each)


SMALL = HermesScale(
    brokers=100,
    systems=5,
    nodes_each=40,
    e1_subscribers=(5, 20, 50, 100),
    e2_clients=(20, 100, 400),
    e2_brokers=(25, 50, 100),
    e3_subscribers=200,
    e4_types=30,
    e4_types_each=5,
    e4_events=30,
)

Measure: TypeAlias = Callable[[System, int], Iterator[tuple[str, float]]]


def types_of(count: int) -> list[str]:
    return [f"type{number}" for number in range(count)]


def per_notification(world: HermesWorld, trips: Sequence[Trip]) -> Iterator[tuple[str, float]]:
    notified = sum(len(trip.notified) for trip in trips)
    links = [link for trip in trips for link in trip.links]
    yield "hops", len(links) / notified
    yield "cost_ms", sum(world.latency_ms(a, b) for a, b in links) / notified
    latency, hops = 0.0, 0
    for trip in trips:
        arrived: dict[int, tuple[float, int]] = {trip.source: (0.0, 0)}
        for a, b in trip.links:
            arrived[b] = (arrived[a][0] + world.latency_ms(a, b), arrived[a][1] + 1)
        latency += sum(arrived[broker][0] for broker in trip.notified)
        hops += sum(arrived[broker][1] for broker in trip.notified)
    yield "latency_ms", latency / notified
    yield "path_hops", hops / notified


def table_totals(system: System, x: int) -> Iterator[tuple[str, float]]:
    tables = system.tables()
    yield "advRT_entries", sum(advertised for advertised, _ in tables)
    yield "subRT_entries", sum(subscribed for _, subscribed in tables)


def _steps(
    add: Callable[[Sequence[HermesClient]], None], clients: Sequence[HermesClient], sizes: Sequence[int]
) -> Iterator[int]:
    done = 0
    for size in sizes:
        add(clients[done:size])
        done = size
        yield size


def e1(seed: int, scale: HermesScale) -> list[HermesPoint]:
    """Routing efficiency."""
    world = scale.world(seed)
    publishers = world.clients("publishers", 10, 1, 1)
    subscribers = world.clients("subscribers", max(scale.e1_subscribers), 1, 1, one_a_broker=True)
    points = []
    for name in FOUR:
        system = make_system(name, world, types_of(1))
        system.advertise(publishers)
        for size in _steps(system.subscribe, subscribers, scale.e1_subscribers):
            trips = [system.publish(client.broker, "type0") for client in publishers]
            points += [HermesPoint("e1", seed, name, size, *one) for one in per_notification(world, trips)]
    return points


def e2a(seed: int, scale: HermesScale) -> list[HermesPoint]:
    """Space: subscribers varied."""
    world = scale.world(seed)
    publishers = world.clients("publishers", 10, 10, 5)
    subscribers = world.clients("subscribers", max(scale.e2_clients), 10, 5)
    points = []
    for name in THREE:
        system = make_system(name, world, types_of(10))
        system.advertise(publishers)
        for size in _steps(system.subscribe, subscribers, scale.e2_clients):
            points += [HermesPoint("e2a", seed, name, size, *one) for one in table_totals(system, size)]
    return points


def e2b(seed: int, scale: HermesScale) -> list[HermesPoint]:
    """Space: publishers varied."""
    world = scale.world(seed)
    publishers = world.clients("publishers", max(scale.e2_clients), 10, 5)
    subscribers = world.clients("subscribers", min(100, scale.brokers), 10, 5)
    points = []
    for name in THREE:
        system = make_system(name, world, types_of(10))
        system.subscribe(subscribers)
        for size in _steps(system.advertise, publishers, scale.e2_clients):
            points += [HermesPoint("e2b", seed, name, size, *one) for one in table_totals(system, size)]
    return points


def e2c(seed: int, scale: HermesScale) -> list[HermesPoint]:
    """Space: brokers varied."""
    points = []
    for brokers in scale.e2_brokers:
        world = scale.world(seed, brokers)
        publishers = world.clients("publishers", 10, 10, 5)
        subscribers = world.clients("subscribers", min(100, scale.brokers), 10, 5)
        for name in THREE:
            system = make_system(name, world, types_of(10))
            system.advertise(publishers)
            system.subscribe(subscribers)
            points += [HermesPoint("e2c", seed, name, brokers, *one) for one in table_totals(system, brokers)]
    return points


def e3(seed: int, scale: HermesScale) -> list[HermesPoint]:
    """Space: how it is distributed."""
    world = scale.world(seed)
    publishers = world.clients("publishers", 10, 10, 5)
    subscribers = world.clients("subscribers", scale.e3_subscribers, 10, 5)
    points = []
    for name in THREE:
        system = make_system(name, world, types_of(10))
        system.advertise(publishers)
        system.subscribe(subscribers)
        points += [
            HermesPoint("e3", seed, name, broker, "table_entries", advertised + subscribed)
            for broker, (advertised, subscribed) in enumerate(system.tables())
        ]
    return points


def _count_messages(system: System, publishers: Sequence[HermesClient], events: int) -> Iterator[tuple[str, float]]:
    yield "advertisements", system.sent["advertisements"]
    yield "subscriptions", system.sent["subscriptions"]
    before = system.sent["publications"]
    for number in range(events):
        client = publishers[number * len(publishers) // events]
        system.publish(client.broker, client.types[number % len(client.types)])
    yield "publications", system.sent["publications"] - before


def e4a(seed: int, scale: HermesScale) -> list[HermesPoint]:
    """Messages: subscribers varied."""
    world = scale.world(seed)
    publishers = world.clients("publishers", min(100, scale.brokers), scale.e4_types, scale.e4_types_each)
    subscribers = world.clients("subscribers", max(scale.e2_clients), scale.e4_types, scale.e4_types_each)
    points = []
    for name in THREE:
        system = make_system(name, world, types_of(scale.e4_types))
        system.advertise(publishers)
        for size in _steps(system.subscribe, subscribers, scale.e2_clients):
            found = _count_messages(system, publishers, scale.e4_events)
            points += [HermesPoint("e4a", seed, name, size, *one) for one in found]
    return points


def e4b(seed: int, scale: HermesScale) -> list[HermesPoint]:
    """Messages: publishers varied."""
    world = scale.world(seed)
    publishers = world.clients("publishers", max(scale.e2_clients), scale.e4_types, scale.e4_types_each)
    subscribers = world.clients("subscribers", 10, scale.e4_types, scale.e4_types_each)
    points = []
    for name in THREE:
        system = make_system(name, world, types_of(scale.e4_types))
        system.subscribe(subscribers)
        for size in _steps(system.advertise, publishers, scale.e2_clients):
            found = _count_messages(system, publishers[:size], scale.e4_events)
            points += [HermesPoint("e4b", seed, name, size, *one) for one in found]
    return points


EXPERIMENTS: dict[str, Callable[[int, HermesScale], list[HermesPoint]]] = {
    "e1": e1,
    "e2a": e2a,
    "e2b": e2b,
    "e2c": e2c,
    "e3": e3,
    "e4a": e4a,
    "e4b": e4b,
}


def run(job: tuple[str, int, HermesScale]) -> list[HermesPoint]:
    name, seed, scale = job
    return EXPERIMENTS[name](seed, scale)
