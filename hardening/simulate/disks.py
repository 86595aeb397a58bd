"""A network in which a broker loses its disk, or gets an older copy of it, while others keep messages for it.

    publish ── back up ── publish ── crash ── publish ── replace, start ── subscribe again ── release ── publish ── read

Named checkers judge what is left of the promises then: `held-for-subscribers`: what others kept for the broker reaches
its durable subscriber; `once-only`: unmarked copies come once, whatever was sent again from the copy;
`order-per-publisher`; `nothing-lost`: what the broker publishes afterwards is not taken for what it published before.
"""

from collections.abc import Iterable
from functools import partial
from random import Random

from hardening.simulate.checkers import fail
from hardening.simulate.clients import Consumer, Mailbox
from hardening.simulate.scenario import LINK
from hardening.simulate.sizes import random_relay_sizes, random_sizes
from hardening.simulate.world import Outcome
from tidings.node.inputs import ReleaseHeld
from tidings.node.network.held_copies import EmptyStoreOptions, EmptyStorePolicy
from tidings.node.network.settings import NetworkSettings
from tidings.overlay.topology.generate import random_tree
from tidings.overlay.topology.graph import Graph
from tidings.sim.brokers import Brokers, SimulatedPublication, Subscriber
from tidings.sim.driver import Trace
from tidings.sim.faults import BackUpDisk, Crash, EmptyDisk, Fault, Restart, RestoreDisk, inflict

PHASE_MS, QUIET_MS, WAIT_MS, EVENTS_MAX = 1500.0, 3000.0, 5000.0, 2_000_000
MESSAGES = 12  # of each publisher in each phase


class DisksWorld:
    def __init__(self, seed: int, trace: Trace | None = None) -> None:
        rng = self.rng = Random(f"disk {seed}")
        graph, dials = _tree(rng)
        self.emptied, self.policy = rng.random() < 0.5, rng.choice((EmptyStorePolicy.WAIT, EmptyStorePolicy.HOLD))
        settings = {
            router: NetworkSettings(
                router,
                "simulated",
                tuple((str(other), other) for other in others),
                costs={int(peer): int(edge.latency_ms) for peer, edge in graph.neighbours(router).items()},
                window_bytes=rng.choice((300, 1 << 20)),
                link=LINK,
                awaits_peers=True,
                unsynchronised="hold",
                empty_store=EmptyStoreOptions(self.policy, WAIT_MS),
            )
            for router, others in dials.items()
        }
        sizes = {router: random_relay_sizes(rng, random_sizes(rng)) for router in settings}
        self.brokers = Brokers(graph, settings, seed, trace=trace, sizes=sizes)
        self.broken, *others = rng.sample(list(settings), len(settings))
        self.writer, self.reader = rng.choice(others), rng.choice(others)
        self.mailbox = Mailbox(self.broken, 1, "durable")
        self.consumer = Consumer(self.brokers, self.mailbox, "consumer", rng, rng)
        self.faults = 0

    def run(self) -> Outcome:
        self.until(QUIET_MS)
        self.consumer.work(steady=True)
        far = self.brokers.subscribe(self.reader, "", durable=True)
        assert far is not None
        self.until(QUIET_MS)
        self.phase(self.writer, self.broken)
        self.fault(BackUpDisk(self.broken))
        self.phase(self.writer, self.broken)
        self.until(self.rng.choice((0.0, 500.0)))
        self.consumer.work(steady=True)
        self.fault(Crash(self.broken))
        kept = self.phase(self.writer)
        self.come_back()
        new = self.phase(self.writer, self.broken)
        self.read()
        self.judge(far, kept, new)
        got = self.mailbox.got.total() + far.got.total()
        return Outcome(len(self.brokers.hosts), self.faults, len(self.brokers.publications), got)

    def come_back(self) -> None:
        """With another disk; perhaps it crashes once more, before or after the others have sent what they kept."""
        self.fault(EmptyDisk(self.broken) if self.emptied else RestoreDisk(self.broken))
        self.fault(Restart(self.broken))
        if self.rng.random() < 0.4:
            self.until(self.rng.choice((10.0, 200.0, 1500.0)))
            self.fault(Crash(self.broken))
            self.fault(Restart(self.broken))
        self.until(self.rng.uniform(500.0, WAIT_MS - 2000.0))
        self.consumer.work(steady=True)
        self.until(QUIET_MS)
        if self.policy is EmptyStorePolicy.HOLD:
            self.brokers.driver.call(str(self.broken), lambda machine, now: machine.order(now, ReleaseHeld()))

    def phase(self, *routers: int) -> list[SimulatedPublication]:
        """Messages that are published at these brokers, and accepted."""
        calendar, start = self.brokers.calendar, len(self.brokers.publications)
        for router in routers:
            for number in range(MESSAGES):
                at = calendar.now + self.rng.uniform(0, PHASE_MS)
                calendar.at(at, partial(self.brokers.publish, router, {"x": number}, persistent=True))
        for _ in range(6):
            self.until(PHASE_MS / 6)
            if self.brokers.broker(self.broken) is not None:
                self.consumer.work(steady=True)
        return self.brokers.publications[start:]

    def read(self) -> None:
        quiet, given = 0, -1
        while quiet < 10:
            self.until(WAIT_MS / 10)
            self.consumer.work(steady=True)
            quiet, given = (quiet + 1, given) if given == len(self.mailbox.given) else (0, len(self.mailbox.given))
        self.brokers.read_durables()
        self.until(QUIET_MS)
        self.brokers.collect()

    def judge(self, far: Subscriber, kept: Iterable[SimulatedPublication], new: Iterable[SimulatedPublication]) -> None:
        mailbox = self.mailbox
        if unmarked := mailbox.unmarked():
            fail("once-only", f"{mailbox.name} gave {unmarked[0].hex()} again without a mark")
        for id, count in far.got.items():
            if count > 1:
                fail("once-only", f"durable at router {far.router} got {id.hex()} {count} times")
        attempts = {one.id: one.attempt for one in sorted(mailbox.given, reverse=True)}
        for one in kept:
            if one.accepted and not mailbox.got[one.id]:
                fail("held-for-subscribers", f"{mailbox.name} lacks {one.id.hex()}, which was kept for it")
            if self.emptied and attempts.get(one.id, 2) <= 1:
                fail("held-for-subscribers", f"{mailbox.name} gave {one.id.hex()}, which was held, without a mark")
        for one in new:
            if one.accepted and not mailbox.got[one.id]:
                fail("nothing-lost", f"{mailbox.name} lacks {one.id.hex()} of router {one.router}")
        for one in [*kept, *new]:
            if one.accepted and not far.got[one.id]:
                fail("nothing-lost", f"durable at router {far.router} lacks {one.id.hex()} of router {one.router}")
        places = {one.id: index for index, one in enumerate([*kept, *new]) if one.router == self.writer}
        for order, name in ((mailbox.first_given(), mailbox.name), (far.order, "the other durable subscription")):
            found = [places[id] for id in order if id in places]
            if found != sorted(found):
                fail("order-per-publisher", f"{name} got messages of router {self.writer} in another order")

    def fault(self, fault: Fault) -> None:
        self.faults += 1
        inflict(self.brokers.driver, fault, self.brokers.hosts)

    def until(self, ms: float) -> None:
        end = self.brokers.calendar.now + ms
        self.brokers.calendar.run(until=end, events_max=EVENTS_MAX)
        assert self.brokers.calendar.now == end, f"liveness: {EVENTS_MAX} events and no end"


def _tree(rng: Random) -> tuple[Graph, dict[int, list[int]]]:
    graph, shape = Graph(), random_tree(rng.randint(2, 5), rng)
    dials: dict[int, list[int]] = {int(node) + 1: [] for node in shape}
    for edge in shape.edges():
        a, b = int(edge.a) + 1, int(edge.b) + 1
        graph.add(a, b, latency_ms=rng.choice((1, 5, 30)))
        dials[a].append(b)
    return graph, dials
