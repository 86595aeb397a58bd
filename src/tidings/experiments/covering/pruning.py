"""Removing root subscriptions from a covering network: how much it disturbs, by policy (section V of the paper).

    deployment                      publishing ───────────────────────────────────────────────►
    one subscription each 1.5 s     │  lead_s  │ roots taken back, one each 0.5 s │ 600 s │ 300 probes …

Probes match a subscription on every edge broker. Nothing is cut off at the end: the run goes on until all queues are
empty, however long that takes in virtual time.

>>> small = PruningOptions(subscriptions=310, families=5, publications=200, unsubscriptions=3, probes=5)
>>> result = run(small)
>>> result.delay_ms_mean > 0, result.probes_handed
(True, 145)
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from tidings.errors import UsageError
from tidings.experiments.covering.pruning_setup import (
    CORE,
    PROBE,
    PUBLISHERS,
    SUBSCRIBERS,
    brokers_55,
    families,
    of_class,
    popular_x,
    tier,
)
from tidings.kernel.codec import encode_message
from tidings.model.constraint import Constraint, Op
from tidings.model.destination import Destination
from tidings.model.message import Message
from tidings.model.predicate import Predicate
from tidings.routing.covering.messages import (
    AdvertisementId,
    CoveringAdvertise,
    CoveringHandOver,
    CoveringPublication,
    CoveringSubscribe,
    CoveringUnsubscribe,
    FilterId,
)
from tidings.routing.covering.policies import make_policy
from tidings.routing.covering.selective import SelectiveOptions
from tidings.sim.covering import CoveringNetwork
from tidings.sim.service import ServiceModel

SAMPLE_MS = 10_000.0
HOURS_MAX = 48.0


@dataclass(frozen=True)
class PruningOptions:
    """The paper's default experiment."""

    policy: str = "selective"
    seed: int = 1
    subscriptions: int = 30_000
    subscribe_ms: float = 1500.0
    publications: int = 21_000
    publish_ms: float = 400.0
    lead_s: float = 3600.0  # of publishing before the first unsubscription: what statistics are made of
    unsubscriptions: int = 300
    unsubscribe_ms: float = 500.0
    families: int = 320
    degree: int = 30  # covering degree: new roots when a root goes
    clustered: bool = False
    probes: int = 300
    probe_after_s: float = 600.0
    phi: float = SelectiveOptions().phi
    service: ServiceModel = field(default_factory=ServiceModel)


@dataclass
class PruningResult:
    options: PruningOptions
    delay_ms_mean: float = 0.0
    delay_ms_p10: float = 0.0
    delay_ms_p90: float = 0.0
    probes_handed: int = 0
    queues: list[tuple[float, float, int]] = field(default_factory=list)  # seconds, mean and greatest at the core
    queue_max: int = 0
    quiet_s: float = 0.0  # after the first unsubscription: when core queues stay below ten
    nrs_messages: dict[str, int] = field(default_factory=dict)  # A to E: messages with subscriptions, since then
    table_before: float = 0.0  # entries of a core broker
    table_after: float = 0.0
    publications: dict[str, int] = field(default_factory=dict)  # by tier, since the first unsubscription
    in_vain: dict[str, int] = field(default_factory=dict)
    preserved: int = 0
    events: int = 0
    wall_s: float = 0.0
    cpu_s: float = 0.0
    ended_ms: int = 0  # wall clock; 0: not noted


class _Experiment:
    def __init__(self, options: PruningOptions, progress: Callable[[float], None] | None) -> None:
        if options.unsubscriptions > options.families:
            raise UsageError("E_EXPERIMENT", f"{options.unsubscriptions} roots are more than {options.families}")
        if options.subscriptions < options.families * (options.degree + 1):
            raise UsageError("E_EXPERIMENT", f"{options.families} families need more subscriptions")
        self.options = options
        self.result = PruningResult(options)
        self.rng = Random(options.seed)
        self.network = CoveringNetwork(
            brokers_55(),
            lambda: make_policy(options.policy, SelectiveOptions(phi=options.phi)),
            service=options.service,
            on_hand=self.on_hand,
        )
        self.calendar = self.network.calendar
        self.sent_at: dict[bytes, float] = {}
        self.delays: list[float] = []
        self.progress = progress

    def on_hand(self, router: int, hand: CoveringHandOver) -> None:
        sent = self.sent_at.get(hand.publication.message)
        if sent is not None:
            self.delays += [self.calendar.now - sent] * len(hand.subscriptions)

    def run(self) -> PruningResult:
        start, cpu = time.perf_counter(), time.process_time()
        roots = self.deploy()
        self.publish_and_remove(roots)
        self.result.wall_s, self.result.cpu_s = time.perf_counter() - start, time.process_time() - cpu
        self.summarise()
        return self.result

    def _run(self, until_ms: float) -> None:
        while self.calendar.now < until_ms:
            self.result.events += self.calendar.run(until=min(until_ms, self.calendar.now + 600_000))
            if self.progress is not None:
                self.progress(self.calendar.now)

    def deploy(self) -> list[tuple[int, FilterId]]:
        """Advertisements, then all subscriptions; the roots."""
        options, network = self.options, self.network
        anything = Predicate.of(Constraint("class", Op.EXISTS), Constraint("x", Op.EXISTS))
        for publisher in PUBLISHERS:
            self.calendar.at(0.0, network.tell, publisher, CoveringAdvertise(AdvertisementId(publisher, 1), anything))
        self._run(1000.0)
        wanted = families(options.subscriptions, options.families, options.degree, self.rng, options.clustered)
        roots, at = [], self.calendar.now
        for number, edge in enumerate(SUBSCRIBERS):
            self.calendar.at(
                at,
                network.tell,
                edge,
                CoveringSubscribe(FilterId(edge, 1_000_000 + number), of_class(PROBE)),
            )
        for number, one in enumerate(wanted):
            at += options.subscribe_ms
            id = FilterId(one.router, number)
            self.calendar.at(at, network.tell, one.router, CoveringSubscribe(id, one.filter))
            if one.root:
                roots.append((one.router, id))
        self._run(at)
        self.result.events += self.calendar.run()
        return self.rng.sample(roots, options.unsubscriptions)

    def publish_and_remove(self, roots: list[tuple[int, FilterId]]) -> None:
        options, calendar = self.options, self.calendar
        start = calendar.now
        for number in range(options.publications):
            self._publish_at(start + number * options.publish_ms, f"c{self.rng.randrange(options.families)}", number)
        begin = start + min(options.lead_s * 1000, options.publications * options.publish_ms / 2)
        self._run(begin)
        brokers = self.network.brokers
        self.begin = begin
        self.result.table_before = sum(len(brokers[core].machine.table) for core in CORE) / len(CORE)
        self.before = {
            router: (one.publications, one.machine.publications_in_vain, one.subscriptions)
            for router, one in brokers.items()
        }
        for number, (router, id) in enumerate(roots):
            calendar.at(begin + number * options.unsubscribe_ms, self.network.tell, router, CoveringUnsubscribe(id))
        probing = begin + len(roots) * options.unsubscribe_ms + options.probe_after_s * 1000
        for number in range(options.probes):
            self._publish_at(probing + number * options.publish_ms, PROBE, -1 - number)
        calendar.at(begin, self._sample)
        self._run(probing + options.probes * options.publish_ms)
        self.result.events += calendar.run(until=begin + HOURS_MAX * 3_600_000)

    def _publish_at(self, at: float, name: str, number: int) -> None:
        publisher = self.rng.choice(PUBLISHERS)
        attributes: dict[str, str | int] = {"class": name, "x": popular_x(self.rng)}
        message = encode_message(Message(Destination("t"), attributes, str(number).encode()))
        if name == PROBE:
            self.sent_at[message] = at
        publication = CoveringPublication(AdvertisementId(publisher, 1), 0, 0, message)
        self.calendar.at(at, self.network.tell, publisher, publication)

    def _sample(self) -> None:
        lengths = [len(self.network.brokers[core].queue or ()) for core in CORE]
        self.result.queues.append(((self.calendar.now - self.begin) / 1000, sum(lengths) / len(lengths), max(lengths)))
        if len(self.calendar):  # something else is still going to happen
            self.calendar.after(SAMPLE_MS, self._sample)

    def summarise(self) -> None:
        result, brokers = self.result, self.network.brokers
        delays = sorted(self.delays)
        result.probes_handed = len(delays)
        if delays:
            result.delay_ms_mean = sum(delays) / len(delays)
            result.delay_ms_p10 = delays[len(delays) // 10]
            result.delay_ms_p90 = delays[len(delays) * 9 // 10]
        result.table_after = sum(len(brokers[core].machine.table) for core in CORE) / len(CORE)
        for core in CORE:
            result.nrs_messages["ABCDE"[core - 1]] = brokers[core].subscriptions - self.before[core][2]
        for router, broker in brokers.items():
            level = tier(router)
            publications, in_vain, _ = self.before[router]
            result.publications[level] = result.publications.get(level, 0) + broker.publications - publications
            vain = broker.machine.publications_in_vain - in_vain
            result.in_vain[level] = result.in_vain.get(level, 0) + vain
            result.preserved += sum(len(border.preserved) for border in broker.machine.borders.values())
        result.queue_max = max((longest for _, _, longest in result.queues), default=0)
        result.quiet_s = max((at for at, _, longest in result.queues if longest >= 10), default=0.0)


def run(options: PruningOptions, progress: Callable[[float], None] | None = None) -> PruningResult:
    return _Experiment(options, progress).run()
