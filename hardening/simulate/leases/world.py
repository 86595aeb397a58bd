"""A run with a broker of two processes, one lease and one store in a database, under faults of all three.

Processes crash, are stopped longer than their lease, also in the middle of a commit, and are cut off from the database
one way or both; sessions are lost with requests and answers; the server restarts. Clients move to the process that has
taken over, and some stay with the one before for as long as it lets them.

What must hold is what the wire workload demands of one broker, across processes (`receipt-means-written`: whoever
confirms has committed), and by name: `taken-over`: when all is mended, one serves, within a bounded time; `goes-on`:
what is published then is accepted.
"""

from random import Random

from hardening.simulate import wire_checkers as checkers
from hardening.simulate.checkers import fail
from hardening.simulate.leases.tandem import CUT_OFF_MS, LEASE_MS, PROCESSES, Tandem
from hardening.simulate.sizes import random_sizes
from hardening.simulate.wire_consumers import WireConsumer
from hardening.simulate.wire_ledger import TOPIC, Box, Ledger, Sent
from hardening.simulate.wire_publishers import Publisher, SoloPublisher
from hardening.simulate.world import Outcome
from tidings.sim.client import SimClient
from tidings.sim.driver import Trace

START_MS, TROUBLE_MS, SETTLE_MS, DRAIN_MS, QUIET_MS = 2_000.0, 6_000.0, 8_000.0, 200.0, 1_000.0
TAKE_OVER_MS = 20_000.0
DEAD = "dead-letters"
STAYS = 2  # the door of clients that do not move


class LeasesWorld:
    def __init__(self, seed: int, trace: Trace | None = None) -> None:
        rng = self.rng = Random(f"leases {seed}")
        self.tandem = Tandem(seed, rng, random_sizes(rng), trace)
        self.ledger = Ledger(self.tandem, rng)
        on_disk: set[bytes] = set()
        self.ledger.on_disk = dict.fromkeys(PROCESSES, on_disk)
        work, done = Box(1, "queue", "work"), Box(1, "queue", "done")
        self.boxes = [work, done, Box(1, "durable", "durable"), Box(1, "shared", "shared")]
        targets = {work: "done"}
        self.consumers = [
            WireConsumer(self.ledger, box, f"{box.name} {number}", targets.get(box, ""))
            for box in self.boxes
            for number in range(1 if box.kind == "durable" else 2)
        ]
        self.grave = WireConsumer(self.ledger, Box(1, "queue", DEAD), "grave")
        self.consumers.append(self.grave)
        to = (TOPIC, "queue:work", "queue:done")
        self.publishers = [Publisher(self.ledger, 1, f"publisher {number}", to, self.boxes, 0) for number in range(2)]
        self.publishers.append(Publisher(self.ledger, STAYS, "stays", (TOPIC,), self.boxes, 0))
        self.solo = SoloPublisher(self.ledger, 1, "solo", ("queue:work",), self.boxes, 0)
        self.faults = 0

    def run(self) -> Outcome:
        with self.tandem.patched():
            return self._run()

    def _run(self) -> Outcome:
        self.tandem.start()
        self.served("at the start")
        for consumer in self.consumers:
            consumer.work(steady=True)
        self.until(self.now + START_MS)
        self.trouble()
        self.until(self.now + TROUBLE_MS)
        self.heal()
        self.until(self.now + SETTLE_MS)
        self.served("when all is mended")
        calm = self.publish_in_calm()
        self.drain()
        self.judge(calm)
        self.begin_anew()
        got = sum(len(box.given) for box in self.boxes)
        return Outcome(len(PROCESSES), self.faults, len(self.ledger.sent), got, self.tandem.take_overs)

    @property
    def now(self) -> float:
        return self.tandem.calendar.now

    def until(self, at: float) -> None:
        """Perhaps longer: a process that waits within a call of its store lets the time go on."""
        self.tandem.calendar.run(until=max(at, self.now))

    def served(self, when: str) -> None:
        limit = self.now + TAKE_OVER_MS
        while self.tandem.broker(1) is None or self.tandem.frozen(1):
            if self.now >= limit:
                fail("taken-over", f"{when}, nobody serves within {TAKE_OVER_MS:.0f} ms")
            self.until(self.now + 50.0)

    # --- trouble ----------------------------------------------------------------------------------------------------

    def trouble(self) -> None:
        rng, calendar, start = self.rng, self.tandem.calendar, self.now
        database = self.tandem.database
        database.stop_chance = rng.choice((0.0, 0.0, 0.02))
        worst = rng.choice((0.0, 0.02, 0.1))
        for number in PROCESSES:
            database.lines[number].worst = worst
        for _ in range(rng.randint(1, 6)):
            self.faults += 1
            calendar.at(start + rng.uniform(0, TROUBLE_MS), self.fault)
        for publisher in self.publishers:
            for _ in range(10):
                calendar.at(start + rng.uniform(0, TROUBLE_MS), publisher.work)
        for consumer in self.consumers:
            for _ in range(12):
                calendar.at(start + rng.uniform(0, TROUBLE_MS), consumer.work)
        for _ in range(3):
            calendar.at(start + rng.uniform(0, TROUBLE_MS), self.solo.run)

    def fault(self) -> None:
        rng, tandem = self.rng, self.tandem
        number = rng.choice(tandem.doors[:1] * 3 + list(PROCESSES))
        line, back_ms = tandem.database.lines[number], rng.choice((100.0, LEASE_MS, 2 * LEASE_MS, 2 * CUT_OFF_MS))
        match rng.randrange(6):
            case 0:
                tandem.crash(number)
            case 1:
                tandem.freeze(number, back_ms)
            case 2:
                line.to_server = line.from_server = False
            case 3:
                line.to_server = False
            case 4:
                line.from_server = False
            case _:
                tandem.database.restart()
                tandem.database.up = rng.random() < 0.5
        tandem.calendar.after(back_ms, self.mend, number)

    def mend(self, number: int) -> None:
        line = self.tandem.database.lines[number]
        line.to_server = line.from_server = self.tandem.database.up = True

    def heal(self) -> None:
        self.tandem.database.stop_chance = 0.0
        for number, line in self.tandem.database.lines.items():
            line.worst = 0.0
            self.mend(number)

    # --- the end ----------------------------------------------------------------------------------------------------

    def publish_in_calm(self) -> list[Sent]:
        calm = []
        for publisher in self.publishers:
            publisher.work(1, persistent=True)
            if publisher.there and publisher.attached:
                calm += [publisher.publish(TOPIC, persistent=True), publisher.publish("queue:work", persistent=True)]
        self.until(self.now + QUIET_MS)
        for one in calm:
            if one.router == 1 and not one.accepted:
                fail("goes-on", f"{one.id.hex()}, published when all was mended, is not accepted")
        return calm

    def drain(self) -> None:
        for consumer in self.consumers:  # another connection: what was to go elsewhere may come here again
            if consumer.there:
                consumer.take()
                consumer.go()
        quiet = 0
        while quiet < 5:
            before = self.given()
            for consumer in self.consumers:
                consumer.work(steady=True)
            self.until(self.now + DRAIN_MS)
            for consumer in self.consumers:
                consumer.take()
            quiet = quiet + 1 if self.given() == before else 0

    def given(self) -> int:
        return sum(len(client.deliveries) for client in self.ledger.clients)

    def alive(self) -> set[SimClient]:
        broker = self.tandem.broker(1)
        return set() if broker is None else set(broker.clients.values())

    def judge(self, calm: list[Sent]) -> None:
        alive, sent = self.alive(), list(self.ledger.sent.values())
        for box in self.boxes:
            checkers.deliveries(box, alive, filled=True)  # a store that is away takes no dead letters
        promised = [one for one in sent if one.accepted and (one.persistent or one in calm)]
        dead = {one.id for one in self.grave.box.given}
        checkers.nothing_lost(self.boxes, promised, {1: dead})
        checkers.answered_once(self.ledger.clients, sent, alive)
        got = {one.id for box in [*self.boxes, self.grave.box] for one in box.given}
        for transfer in [one for consumer in self.consumers for one in consumer.transfers]:
            if 0 < sum(id in got for id in transfer.sent) < len(transfer.sent):
                fail("whole-transactions", f"a part of what {transfer.receipt} has sent on arrived")

    def begin_anew(self) -> None:
        """All is done and the store has it: whoever takes over gives nothing again."""
        asked = [(one, one.client, one.sync()) for one in self.consumers if one.attached]
        self.until(self.now + QUIET_MS)
        for consumer, client, receipt in asked:
            if client is not None and receipt not in client.done:
                fail("acked-stays-acked", f"nobody says that what {consumer.name} acknowledged is written")
        self.tandem.crash(self.tandem.doors[0])
        self.until(self.now + QUIET_MS)
        self.served("after a crash in calm")
        before = [len(box.given) for box in self.boxes]
        for _ in range(3):
            for consumer in self.consumers:
                consumer.work(steady=True)
            self.until(self.now + QUIET_MS)
        for box, count in zip(self.boxes, before, strict=True):
            for one in box.given[count:]:
                fail("acked-stays-acked", f"{box.title} gave {one.id.hex()} again after a take-over")
