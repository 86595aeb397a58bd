"""Subscribers that move: the pruning paper's section V-F, a game whose players and monitors change brokers.

Four tiers of brokers (1, 4, 12 and 36) in four regions; 5000 subscribers on the lowest tier, 40 publishers anywhere;
four monitors, one a region, interested in everything. Every two minutes one monitor moves to another broker of its
region: it unsubscribes here and subscribes there. Others may move too, within their regions. The run ends after its
hours, congested or not.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from tidings.kernel.codec import encode_message
from tidings.model.constraint import Constraint, Op
from tidings.model.destination import Destination
from tidings.model.message import Message
from tidings.model.predicate import Predicate
from tidings.overlay.topology.graph import Graph
from tidings.routing.covering.messages import (
    AdvertisementId,
    CoveringAdvertise,
    CoveringPublication,
    CoveringSubscribe,
    CoveringUnsubscribe,
    FilterId,
)
from tidings.routing.covering.policies import make_policy
from tidings.sim.covering import CoveringNetwork
from tidings.sim.service import ServiceModel

REGIONS = 4
WORLD = 1000  # on a side
SAMPLE_MS = 60_000.0
SETTLE_MS = 600_000.0


@dataclass(frozen=True)
class MobileOptions:
    policy: str = "selective"
    seed: int = 1
    hours: float = 6.0
    subscribers: int = 5000
    sight: int = 100  # what a subscriber sees of the world, on a side
    publishers: int = 40
    monitor_move_s: float = 120.0
    moves_a_minute: float = 0.0  # of the others
    away_s: float = 10.0  # from unsubscribing here to subscribing there
    publish_ms: float = 1000.0  # 21 600 publications in all, as many as in the other experiments
    service: ServiceModel = field(default_factory=ServiceModel)


@dataclass
class MobileResult:
    options: MobileOptions
    queues: list[tuple[float, int]] = field(default_factory=list)  # seconds, most that waited at the core since before
    tables: list[tuple[float, float]] = field(default_factory=list)  # seconds, entries of a broker on average
    publications: dict[int, float] = field(default_factory=dict)  # by tier, of a broker on average
    in_vain: dict[int, float] = field(default_factory=dict)
    events: int = 0
    wall_s: float = 0.0
    cpu_s: float = 0.0
    ended_ms: int = 0  # wall clock; 0: not noted


def tiers() -> tuple[Graph, dict[int, int], dict[int, list[int]]]:
    """The graph, the tier of each broker, and the lowest brokers of each region, where subscribers are."""
    graph = Graph()
    tier = {1: 1}
    regions: dict[int, list[int]] = {}
    number = 1
    for region in range(REGIONS):
        above = [1]
        for level, width in ((2, 1), (3, 3), (4, 3)):
            fresh = []
            for parent in above:
                for _ in range(width):
                    number += 1
                    graph.add(parent, number)
                    tier[number] = level
                    fresh.append(number)
            above = fresh
        regions[region] = above
    return graph, tier, regions


def around(x: int, y: int, sight: int) -> Predicate:
    """The square that a player there sees: all have one size, so none covers another."""
    spans = (("x", x), ("y", y))
    lower = [Constraint(name, Op.GE, low) for name, low in spans]
    return Predicate.of(*lower, *(Constraint(name, Op.LE, low + sight) for name, low in spans))


class _Mobile:
    def __init__(self, options: MobileOptions) -> None:
        self.options = options
        self.rng = Random(options.seed)
        self.result = MobileResult(options)
        graph, self.tier, self.regions = tiers()
        self.network = CoveringNetwork(graph, lambda: make_policy(options.policy), service=options.service)
        self.calendar = self.network.calendar
        self.number = 0
        self.at: list[tuple[int, FilterId, Predicate]] = []  # region, id and filter of each mobile subscriber
        self.monitors: list[tuple[int, FilterId, Predicate]] = []

    def subscribe(self, region: int, filter: Predicate) -> tuple[int, FilterId, Predicate]:
        self.number += 1
        id = FilterId(self.rng.choice(self.regions[region]), self.number)
        self.network.tell(id.router, CoveringSubscribe(id, filter))
        return region, id, filter

    def move(self, who: list[tuple[int, FilterId, Predicate]], every_ms: float) -> None:
        index = self.rng.randrange(len(who))
        region, id, filter = who[index]
        if id.number:
            self.network.tell(id.router, CoveringUnsubscribe(id))
            who[index] = (region, FilterId(0, 0), filter)  # away
            self.calendar.after(self.options.away_s * 1000, self.come_back, who, index)
        self.calendar.after(every_ms, self.move, who, every_ms)

    def come_back(self, who: list[tuple[int, FilterId, Predicate]], index: int) -> None:
        region, _, filter = who[index]
        who[index] = self.subscribe(region, filter)

    def publish(self) -> None:
        id = self.rng.choice(self.offered)
        attributes: dict[str, int] = {"x": self.rng.randrange(WORLD), "y": self.rng.randrange(WORLD)}
        message = encode_message(Message(Destination("t"), attributes, str(self.calendar.now).encode()))
        self.network.tell(id.router, CoveringPublication(id, 0, 0, message))
        self.calendar.after(self.options.publish_ms, self.publish)

    def sample(self) -> None:
        seconds = (self.calendar.now - self.begin) / 1000
        brokers = self.network.brokers
        core = brokers[1].queue
        assert core is not None
        self.result.queues.append((seconds, core.length_max))
        core.length_max = len(core)
        self.result.tables.append((seconds, sum(len(one.machine.table) for one in brokers.values()) / len(brokers)))
        self.calendar.after(SAMPLE_MS, self.sample)

    def run(self, progress: Callable[[float], None] | None) -> MobileResult:
        options, calendar = self.options, self.calendar
        start, cpu = time.perf_counter(), time.process_time()
        routers = list(self.network.brokers)
        anything = Predicate.of(Constraint("x", Op.EXISTS), Constraint("y", Op.EXISTS))
        self.offered = [AdvertisementId(self.rng.choice(routers), number) for number in range(options.publishers)]
        for adv in self.offered:
            self.network.tell(adv.router, CoveringAdvertise(adv, anything))
        self.result.events += calendar.run()
        self.monitors = [self.subscribe(region, anything) for region in range(REGIONS)]
        self.result.events += calendar.run()
        for _ in range(options.subscribers):
            region = self.rng.randrange(REGIONS)
            x, y = (self.rng.randrange(-options.sight, WORLD) for _ in range(2))
            filter = around(x, y, options.sight)
            self.at.append(self.subscribe(region, filter))
            self.result.events += calendar.run()
        self.begin = calendar.now
        calendar.at(self.begin, self.publish)
        self.result.events += calendar.run(until=self.begin + SETTLE_MS)  # statistics first
        self.begin = calendar.now
        calendar.at(self.begin, self.sample)
        calendar.at(self.begin, self.move, self.monitors, options.monitor_move_s * 1000)
        if options.moves_a_minute > 0:
            calendar.at(self.begin, self.move, self.at, 60_000 / options.moves_a_minute)
        end = self.begin + options.hours * 3_600_000
        while calendar.now < end:
            self.result.events += calendar.run(until=min(end, calendar.now + 600_000))
            if progress is not None:
                progress((calendar.now - self.begin) / (end - self.begin))
        self.summarise()
        self.result.wall_s, self.result.cpu_s = time.perf_counter() - start, time.process_time() - cpu
        return self.result

    def summarise(self) -> None:
        for level in sorted(set(self.tier.values())):
            brokers = [self.network.brokers[router] for router, own in self.tier.items() if own == level]
            self.result.publications[level] = sum(one.publications for one in brokers) / len(brokers)
            vain = sum(one.machine.publications_in_vain for one in brokers)
            self.result.in_vain[level] = vain / len(brokers)


def run(options: MobileOptions, progress: Callable[[float], None] | None = None) -> MobileResult:
    return _Mobile(options).run(progress)
