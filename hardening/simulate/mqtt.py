"""A small network with faults whose clients speak MQTT, beside queues with delayed messages and message groups.

Named checkers: `qos-1-not-lost`, `qos-2-not-lost`, `qos-2-once`: what a client has published, until the broker
confirmed it, comes to every session that had subscribed before, across crashes and lost connections of either side;
`last-values`: a later subscriber gets the last retained message of each topic; and those of `later`.
"""

from collections import Counter
from dataclasses import replace
from random import Random

from hardening.simulate import later
from hardening.simulate.checkers import fail
from hardening.simulate.fault_plans import healing
from hardening.simulate.mqtt_lines import MqttParty, MqttPlaces, MqttWriter
from hardening.simulate.scenario import LINK
from hardening.simulate.sizes import random_sizes
from hardening.simulate.wire_ledger import Ledger, Worker
from hardening.simulate.world import Outcome
from tidings.node.network.settings import NetworkSettings
from tidings.overlay.topology.graph import Graph
from tidings.protocols.mqtt.packets import V4, V5, SubscriptionAnswer
from tidings.sim.broker import Sizes
from tidings.sim.brokers import Brokers
from tidings.sim.driver import Trace
from tidings.sim.faults import Crash, Fault, Restart, inflict, random_faults

START_MS, NOTED_MS, TROUBLE_MS, STEP_MS, STEPS_MAX = 500.0, 1_500.0, 3_000.0, 50.0, 600
CLOCK_STEP_MS = 10.0
EVENTS_MAX = 2_000_000
ACTS = 60  # of each client while there are faults


class MqttWorld:
    def __init__(self, seed: int, trace: Trace | None = None) -> None:
        rng = self.rng = Random(f"mqtt {seed}")
        self.graph, self.routers = Graph(), [1, 2]
        self.graph.add(1, 2, 2.0)
        settings = {
            router: NetworkSettings(
                router, dials=(("2", 2),) if router == 1 else (), link=LINK, costs={1: 2, 2: 2}, window_bytes=3000
            )
            for router in self.routers
        }
        sizes = {router: _sizes(rng) for router in self.routers}
        self.brokers = Brokers(self.graph, settings, seed, None, trace, sizes=sizes)
        self.ledger, self.places = Ledger(self.brokers, rng), MqttPlaces()
        self.readers, self.writers = list[MqttParty](), list[MqttWriter]()
        self.publishers, self.consumers = list[later.LaterPublisher](), list[later.LaterConsumer]()
        for router in self.routers:
            self._people(router)
        self.faults = random_faults(self.graph, rng, rng.randint(1, 5), TROUBLE_MS, step_ms=CLOCK_STEP_MS)
        for router in self.routers:
            if rng.random() < 0.7:
                at = rng.uniform(0, TROUBLE_MS)
                self.faults += [(at, Crash(router)), (at + rng.uniform(0, 300), Restart(router))]

    def _people(self, router: int) -> None:
        rng, ledger = self.rng, self.ledger
        for qos in (1, 2):
            reader = MqttParty(ledger, router, f"reader {router} {qos}", self.places, rng.choice((V4, V5)))
            self.readers.append(reader)
            version = rng.choice((V4, V5))
            self.writers.append(MqttWriter(ledger, router, f"writer-{router}-{qos}", self.places, qos, version))
        queue = f"later-{router}"
        self.publishers.append(later.LaterPublisher(ledger, router, queue))
        for number in (1, 2):
            self.consumers.append(later.LaterConsumer(ledger, router, queue, f"later {router} {number}"))

    # --- the course of a run --------------------------------------------------------------------------------------

    def run(self) -> Outcome:
        self.until(START_MS)
        for reader in self.readers:
            reader.work(steady=True)
            reader.model.subscribe("t/#", int(reader.name[-1]))
        self.settle([*self.readers, *self.consumers])
        for reader in self.readers:
            assert any(isinstance(one, SubscriptionAnswer) for one in reader.model.packets), f"{reader.name} waits"
        self.until(self.now + NOTED_MS)
        self.trouble()
        self.heal()
        for writer in self.writers:  # after all faults everything comes at once
            writer.work()
        self.settle(self.workers())
        self.judge()
        published = sum(len(one.published) + len(one.values) for one in self.writers)
        published += sum(len(one.due) for one in self.publishers)
        got = sum(len(one.model.messages) for one in self.readers) + sum(len(one.handed) for one in self.consumers)
        return Outcome(len(self.routers), len(self.faults), published, got)

    def workers(self) -> list[Worker]:
        return [*self.readers, *self.writers, *self.publishers, *self.consumers]

    @property
    def now(self) -> float:
        return self.brokers.calendar.now

    def until(self, at: float) -> None:
        self.brokers.calendar.run(until=at, events_max=EVENTS_MAX)
        assert self.now == at, f"liveness: {EVENTS_MAX} events and no end"

    def trouble(self) -> None:
        calendar, start = self.brokers.calendar, self.now
        for at, fault in self.faults:
            calendar.at(start + at, inflict, self.brokers.driver, fault, self.brokers.hosts)
        for party in self.workers():
            for _ in range(ACTS):
                calendar.at(start + self.rng.uniform(0, TROUBLE_MS), party.work)
        self.until(start + TROUBLE_MS + 400.0)

    def heal(self) -> None:
        network = self.brokers.driver.network
        cures: list[Fault] = healing(self.graph, self.routers)
        for fault in cures:
            inflict(self.brokers.driver, fault, self.brokers.hosts)
        for a, b in ((1, 2), (2, 1)):
            if network.wire(a, b).stuck is not None:
                network.release(a, b)

    def settle(self, parties: list[Worker]) -> None:
        """Until nothing comes any more: for longer than a lost link needs, and the longest delay."""
        quiet = 0
        for _ in range(STEPS_MAX):
            before = self.heard()
            for party in parties:
                party.work(steady=True)
            self.until(self.now + STEP_MS)
            quiet = quiet + 1 if self.heard() == before else 0
            if quiet * STEP_MS > 2 * max(later.DELAYS_MS):
                return
        fail("liveness", f"something comes for {STEPS_MAX * STEP_MS / 1000:.0f} s")

    def heard(self) -> int:
        packets = sum(len(one.model.packets) for one in (*self.readers, *self.writers))
        return packets + sum(len(one.handed) for one in self.consumers)

    # --- judged ---------------------------------------------------------------------------------------------------

    def judge(self) -> None:
        for writer in self.writers:
            if writer.model.unfinished:
                fail(f"qos-{writer.qos}-not-lost", f"{writer.name} waits for {sorted(writer.model.unfinished)}")
        for reader in self.readers:
            got = Counter(one.payload for one in reader.model.messages)
            for writer in self.writers:
                for payload in writer.promised():
                    self._judge_one(reader, writer, payload, got[payload])
        self._judge_values()
        for publisher in self.publishers:
            later.judge(publisher, [one for one in self.consumers if one.queue == publisher.queue])

    def _judge_one(self, reader: MqttParty, writer: MqttWriter, payload: bytes, count: int) -> None:
        if not count:
            fail(f"qos-{writer.qos}-not-lost", f"{reader.name} lacks {payload!r}")
        if count > 1 and writer.qos == 2 and reader.name.endswith("2"):
            fail("qos-2-once", f"{reader.name} has got {payload!r} {count} times")

    def _judge_values(self) -> None:
        watchers = [MqttParty(self.ledger, router, f"watcher {router}", self.places) for router in self.routers]
        for watcher in watchers:
            watcher.work(steady=True)
            watcher.model.subscribe("state/#", 1)
        self.readers += watchers
        self.settle([*watchers])
        for watcher in watchers:
            found = {one.topic: one.payload for one in watcher.model.messages if one.retain}
            for writer in self.writers:
                for topic, values in writer.last_values().items():
                    if found.get(topic) not in values:
                        fail("last-values", f"{watcher.name} has {found.get(topic)!r} of {topic}, not {values!r}")
        self.readers = self.readers[: -len(watchers)]


def _sizes(rng: Random) -> Sizes:
    sizes = random_sizes(rng)
    return replace(sizes, settings=replace(sizes.settings, last_values=True))
