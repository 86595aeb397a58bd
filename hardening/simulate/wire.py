"""A run whose clients use the wire to the full, in a small network with faults.

Consumers say every verdict, give credit late and in pieces and send on in transactions; readers fall asleep under
every policy; publishers are held, wait for each receipt, have clocks that drift; some clients speak STOMP. The brokers
have constants drawn by chance, small ones mostly.
"""

from collections import Counter
from dataclasses import replace
from random import Random

from hardening.simulate import wire_checkers as checkers
from hardening.simulate.checkers import fail
from hardening.simulate.fault_plans import combined_faults, healing
from hardening.simulate.moments import Moments
from hardening.simulate.scenario import LINK, SKEW_MS, random_tracking
from hardening.simulate.sizes import random_sizes
from hardening.simulate.wire_consumers import SlowReader, WireConsumer
from hardening.simulate.wire_ledger import TOPIC, Box, Ledger, Sent, Worker
from hardening.simulate.wire_publishers import Offender, Publisher, SoloPublisher, StompParty
from hardening.simulate.world import Outcome
from tidings.delivery.mailbox import SlowPolicy
from tidings.delivery.policy import QueuePolicy, policy_of
from tidings.delivery.redelivery_delay import Backoff
from tidings.model.destination import Destination, DestinationPattern
from tidings.node.network.settings import NetworkSettings
from tidings.overlay.topology.graph import Graph
from tidings.sim.broker import DELIVERIES_MAX, Sizes
from tidings.sim.brokers import Brokers
from tidings.sim.client import SimClient
from tidings.sim.driver import Trace
from tidings.sim.faults import Crash, Fault, FullDisk, Restart, inflict, random_faults

START_MS, NOTED_MS, TROUBLE_MS, SETTLE_MS, DRAIN_MS, QUIET_MS = 1_000.0, 1_200.0, 4_000.0, 3_000.0, 100.0, 1_000.0
STEP_MS = 10.0  # clocks are set by at most so much
DEAD = "dead-letters"
EVENTS_MAX = 1_000_000
LATE = "late"  # a queue that nobody consumes before the end
LATE_MESSAGES, LATE_MS = 12, 400.0


class WireWorld:
    def __init__(self, seed: int, trace: Trace | None = None) -> None:
        self.rng = rng = Random(f"wire {seed}")
        self.graph, self.routers = Graph(), list(range(1, rng.randint(2, 3) + 1))
        for router in self.routers[1:]:
            self.graph.add(router - 1, router, 2.0)
        settings = {router: self._settings(router) for router in self.routers}
        self.policies = queue_policies(Random(f"policies {seed}"))
        self.sizes = {router: wire_sizes(rng, self.policies) for router in self.routers}
        self.tracked = rng.random() < 0.5
        tracking = random_tracking("runs", rng) if self.tracked else None
        self.brokers = Brokers(self.graph, settings, seed, None, trace, tracking=tracking, sizes=self.sizes)
        self.faults = self._faults()
        self.moments = Moments(self.brokers, rng)
        self.ledger = Ledger(self.brokers, rng)
        self.boxes: list[Box] = []
        self.consumers: list[WireConsumer] = []
        self.graves: list[WireConsumer] = []
        self.readers: list[SlowReader] = []
        self.publishers: list[Publisher] = []
        self.solos: list[SoloPublisher] = []
        self.stomps: list[StompParty] = []
        self.calm: list[Sent] = []
        for router in self.routers:
            self._people(router)

    def _settings(self, router: int) -> NetworkSettings:
        dials = ((str(router + 1), router + 1),) if router < len(self.routers) else ()
        window_bytes = self.rng.choice((300, 3000, 1 << 20))
        return NetworkSettings(
            router, dials=dials, link=LINK, costs=dict.fromkeys(self.routers, 2), window_bytes=window_bytes
        )

    def _faults(self) -> list[tuple[float, Fault]]:
        rng = self.rng
        faults = random_faults(self.graph, rng, rng.randint(0, 4), TROUBLE_MS, step_ms=STEP_MS)
        if rng.random() < 0.5:
            faults += combined_faults(self.graph, rng, TROUBLE_MS)
        return faults

    def _people(self, router: int) -> None:
        rng, ledger = self.rng, self.ledger
        work, done = self._box(router, "queue", "work"), self._box(router, "queue", "done")
        wanted = [(work, 2, "done"), (done, 1, ""), (self._box(router, "queue", "solo"), 1, "")]
        if rng.random() < 0.7:
            wanted.append((self._box(router, "durable", f"durable {router}"), 1, ""))
        if rng.random() < 0.4:
            wanted.append((self._box(router, "shared", f"shared {router}"), 2, ""))
        for box, count, target in wanted:
            for number in range(count):
                self.consumers.append(WireConsumer(ledger, box, f"{box.name} consumer {number}", target))
        self._box(router, "queue", LATE)
        self.graves.append(WireConsumer(ledger, Box(router, "queue", DEAD), f"grave {router}"))
        for _ in range(rng.randint(1, 2)):
            policy, private = rng.choice(list(SlowPolicy)), rng.random() < 0.5
            self.readers.append(SlowReader(ledger, router, len(self.readers) + 1, policy, private=private))
        mine = [one.topic for one in self.readers if one.router == router]
        for number in range(2):
            to = (TOPIC, "queue:work", "queue:done", *mine)
            clock_ms = rng.choice((0, rng.randint(-2_000, 2_000)))
            publisher = Publisher(ledger, router, f"publisher {number}", to, self.boxes, clock_ms)
            publisher.slow = mine
            self.publishers.append(publisher)
        if rng.random() < 0.6:
            self.solos.append(SoloPublisher(ledger, router, "solo", ("queue:solo",), self.boxes, 0))
        if rng.random() < 0.4:
            self.stomps.append(StompParty(ledger, router, "stomp"))

    def _box(self, router: int, kind: str, name: str) -> Box:
        self.boxes.append(Box(router, kind, name))
        return self.boxes[-1]

    # --- the course of a run --------------------------------------------------------------------------------------

    def run(self) -> Outcome:
        self.until(START_MS)
        for party in self.workers():
            party.work()
        self.until(self.now + NOTED_MS)  # brokers write down once a second what others are subscribed to
        self.trouble()
        self.until(self.now + TROUBLE_MS)
        for reader in self.readers:
            if reader.there and reader.attached:
                checkers.pushed_back(reader, self.sizes[reader.router].settings.stall_ms)
        self.heal()
        self.until(self.now + SETTLE_MS)
        self.sleep()
        self.publish_in_calm()
        self.drain()
        self.check_clocks()
        self.check_backlog()
        self.drain()
        self.judge()
        self.begin_anew()
        got = sum(len(box.given) for box in self.boxes)
        got += sum(len(one.deliveries) for one in self.ledger.clients)
        transfers = sum(len(one.transfers) for one in self.consumers)
        return Outcome(len(self.routers), len(self.faults), len(self.ledger.sent), got, transfers)

    def workers(self) -> list[Worker]:
        return [*self.consumers, *self.graves, *self.readers, *self.stomps]

    @property
    def now(self) -> float:
        return self.brokers.calendar.now

    def until(self, at: float) -> None:
        self.brokers.calendar.run(until=at, events_max=EVENTS_MAX)
        assert self.now == at, f"liveness: {EVENTS_MAX} events and no end"

    def trouble(self) -> None:
        calendar, rng, start = self.brokers.calendar, self.rng, self.now
        for at, fault in self.faults:
            calendar.at(start + at, inflict, self.brokers.driver, fault, self.brokers.hosts)
        for publisher in self.publishers:
            for _ in range(8):
                calendar.at(start + rng.uniform(0, TROUBLE_MS), publisher.work)
            calendar.at(start + rng.uniform(0, TROUBLE_MS), publisher.burst, rng.choice(publisher.slow))
        for router in self.routers:
            calendar.at(start + rng.uniform(0, TROUBLE_MS), Offender(self.ledger, router, "offender").work)
        for party in self.workers():
            for _ in range(12):
                calendar.at(start + rng.uniform(0, TROUBLE_MS), party.work)
        for router in self.routers:
            if rng.random() < 0.4:
                calendar.at(start + rng.uniform(0, TROUBLE_MS), self.moments.when_stored, router)
        for solo in self.solos:
            at = start + rng.uniform(0, TROUBLE_MS)
            calendar.at(at, solo.run)
            if rng.random() < 0.6:
                when = rng.choice((self.moments.when_asked, self.moments.when_stored, self.moments.when_full))
                calendar.at(at + rng.uniform(0, 60), when, solo.router)

    def heal(self) -> None:
        self.moments.end()
        for fault in healing(self.graph, self.routers):
            inflict(self.brokers.driver, fault, self.brokers.hosts)
        network = self.brokers.driver.network
        for a, b in [(a, b) for a in self.routers for b in self.routers if abs(a - b) == 1]:
            if network.wire(a, b).stuck is not None:
                network.release(a, b)

    def sleep(self) -> None:
        """No publisher waits for ever, however long readers take nothing."""
        for reader in self.readers:
            reader.work(asleep=self.rng.random() < 0.7)
        for publisher in self.publishers:
            publisher.work(4)
            publisher.burst(self.rng.choice(publisher.slow))
        stall_ms = max(one.settings.stall_ms for one in self.sizes.values())
        self.until(self.now + 3 * stall_ms + 3_000)
        for publisher in self.publishers:
            client = publisher.client
            if client is not None and publisher.attached and not client.heard_out and not client.paused:
                fail("nobody-waits-for-ever", f"{publisher.name} at router {publisher.router} is still held")

    def publish_in_calm(self) -> None:
        """All is mended: what is not persistent comes to everybody, too."""
        for publisher in self.publishers:
            for persistent in (False, True):
                if publisher.attached and publisher.client is not None and not publisher.client.ended:
                    self.calm.append(publisher.publish(TOPIC, persistent=persistent))
        self.until(self.now + QUIET_MS)

    def drain(self) -> None:
        """Everything is read."""
        for consumer in self.consumers:  # another connection: what was to go elsewhere may come here again
            if consumer.there:
                consumer.take()
                consumer.go()
        quiet, rest_ms = 0, max(policy.backoff.most_ms for policy in self.policies)
        while quiet < 4 + (rest_ms and (rest_ms + QUIET_MS) // DRAIN_MS):
            before = self.given()
            for party in self.workers():
                party.work(steady=True)
            self.until(self.now + DRAIN_MS)
            for consumer in [*self.consumers, *self.graves]:
                consumer.take()
            quiet = quiet + 1 if self.given() == before else 0

    def given(self) -> int:
        return sum(len(client.deliveries) for client in self.ledger.clients) + sum(len(one.got) for one in self.stomps)

    def check_clocks(self) -> None:
        """A publisher whose clock is off gets a notice, and its next message has the right time."""
        if not self.tracked:
            return
        clocked = [one for one in self.publishers if one.clock_ms and one.attached and not one.client.ended]  # type: ignore[union-attr]
        for publisher in clocked:
            publisher.clock_ms += 4 * SKEW_MS
        for _ in range(2):  # the first may only confirm what an earlier message was answered with
            for publisher in clocked:
                publisher.confirm_clock()
                publisher.publish(TOPIC, persistent=False)
            self.until(self.now + QUIET_MS)
        for publisher in clocked:
            publisher.confirm_clock()
            off_ms = publisher.time_ms - self.now - self.brokers.hosts[publisher.router].ahead_ms
            if publisher.attached and abs(off_ms) > SKEW_MS:
                fail(
                    "clocks", f"{publisher.name} at router {publisher.router} is off by {off_ms:.0f} ms and not told so"
                )

    def check_backlog(self) -> None:
        """A backlog comes at once to a consumer that has credit for all of it, however little its output holds."""
        waiting: list[WireConsumer] = []
        for box in [one for one in self.boxes if one.name == LATE]:
            publisher = Publisher(self.ledger, box.router, "late", (f"queue:{LATE}",), self.boxes, 0)
            publisher.work(LATE_MESSAGES, persistent=True)
            waiting.append(WireConsumer(self.ledger, box, "late"))
        self.until(self.now + 2 * QUIET_MS)
        for consumer in waiting:
            consumer.attach_for_all()
        self.until(self.now + LATE_MS)
        for consumer in waiting:
            consumer.take()
            expected = [one for one in self.ledger.sent.values() if consumer.box.wants(one) and one.accepted]
            if len(consumer.held) < len(expected):
                fail("backlog-at-once", f"{len(consumer.held)} of {len(expected)} came within {LATE_MS:.0f} ms")
        self.consumers += waiting

    # --- judged ---------------------------------------------------------------------------------------------------

    def alive(self) -> set[SimClient]:
        return {client for broker in self.brokers.running().values() for client in broker.clients.values()}

    def judge(self) -> None:
        alive, sent = self.alive(), list(self.ledger.sent.values())
        filled = bool(self.moments.filled) or any(isinstance(fault, FullDisk) for _, fault in self.faults)
        for box in self.boxes:
            checkers.deliveries(box, alive, filled=filled)
            if box.kind == "queue" and (policy := policy_of(self.policies, Destination(box.name, True))):
                checkers.rests(box, policy.backoff)
                if policy.single_active:
                    checkers.one_active(box)
        dead = {one.router: {given.id for given in one.box.given} for one in self.graves}
        promised = [one for one in sent if one.accepted and (one.persistent or one in self.calm)]
        checkers.nothing_lost(self.boxes, promised, dead)
        for router in self.routers:
            (done,) = [one for one in self.boxes if (one.router, one.name) == (router, "done")]
            got = Counter([one.id for one in done.given] + list(dead[router]))
            for consumer in self.consumers:
                if consumer.router == router and consumer.target:
                    checkers.whole_transfers(consumer.transfers, got, consumer.box)
        checkers.answered_once(self.ledger.clients, sent, alive)
        for reader in self.readers:
            if reader.attached:
                checkers.slow_reader(reader, self.ledger)
        for party in self.stomps:
            party.look()
            checkers.stomp(party)

    def begin_anew(self) -> None:
        """All is done and brokers say that this is on disk: after a crash nothing comes again."""
        asked = [(one, one.client, one.sync()) for one in [*self.consumers, *self.graves] if one.attached]
        self.until(self.now + QUIET_MS)
        for consumer, client, receipt in asked:
            if client is not None and receipt not in client.done:
                fail("acked-stays-acked", f"nobody says that what {consumer.name} acknowledged is on disk")
        for change in (Crash, Restart):
            for router in self.routers:
                inflict(self.brokers.driver, change(router))
        before = [len(box.given) for box in self.boxes]
        for consumer in self.consumers:
            consumer.work(steady=True)
        self.until(self.now + QUIET_MS)
        for consumer in self.consumers:
            consumer.take()
        for box, count in zip(self.boxes, before, strict=True):
            for one in box.given[count:]:
                fail("acked-stays-acked", f"{box.title} gave {one.id.hex()} again after a restart")


def queue_policies(rng: Random) -> tuple[QueuePolicy, ...]:
    """Of the queue that two consumers share."""
    first_ms, factor, jitter = rng.choice((0, 0, 300, 900)), rng.choice((1.0, 2.0)), rng.choice((0.0, 0.5))
    backoff = Backoff(first_ms, factor, 2 * first_ms, jitter)
    return (QueuePolicy(DestinationPattern.parse("queue:work"), backoff=backoff, single_active=rng.random() < 0.4),)


def wire_sizes(rng: Random, policies: tuple[QueuePolicy, ...]) -> Sizes:
    """Those of any broker, and limits at which policies act."""
    sizes = random_sizes(rng)
    settings = replace(
        sizes.settings,
        deliveries_max=rng.choice((3, 6, DELIVERIES_MAX)),
        sink_bytes_max=rng.choice((2_000, 8_000)),
        stall_ms=rng.choice((300, 1_000)),
        policies=policies,
    )
    refuses = rng.random() < 0.3
    small = rng.random() < 0.5  # memory: then less of what a held publisher sent may wait in it than it has room for
    return replace(
        sizes,
        settings=settings,
        memory_bytes_max=20_000 if small else sizes.memory_bytes_max,
        read_bytes=min(sizes.read_bytes, 200) if small else sizes.read_bytes,
        rate_allowed=rng.choice((None, None, 20.0 if refuses else 200.0)),
        refuses=refuses,
    )
