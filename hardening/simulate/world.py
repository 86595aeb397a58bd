"""A run of whole brokers: the node and the kernel that ship, in virtual time, with clients and faults."""

from dataclasses import dataclass
from random import Random

from hardening.simulate import checkers
from hardening.simulate.choices import Choices
from hardening.simulate.clients import QUEUE, Consumer, Mailbox, Transactor
from hardening.simulate.fault_plans import healing
from hardening.simulate.lasting import LastingEvents
from hardening.simulate.moments import Moments
from hardening.simulate.scenario import FAULTS_MS, SKEW_MS, random_scenario
from hardening.simulate.sizes import forgets_ids
from hardening.simulate.typed import REPAIR_MS, Typed
from tidings.model.codec import ID
from tidings.model.values import Value
from tidings.sim.brokers import Brokers, SimulatedPublication, Subscriber, no_loops
from tidings.sim.client import SimClient
from tidings.sim.driver import Trace
from tidings.sim.faults import Crash, LoseHost, Reconfigure, Restart, Unclog, inflict
from tidings.sim.host import WRITE_MS
from tidings.tracking.query.path import Path

START_MS, SETTLE_MS, QUIET_MS, DRAIN_MS, ANSWER_MS = 2500.0, 3500.0, 1000.0, 200.0, 3000.0
CONVERGE_MS = {False: 30_000.0, True: 120_000.0}  # by whether Pan makes the links
POLL_MS = 500.0
EVENTS_MAX = 2_000_000
SENT_AGAIN = 8  # messages of each router, at the end
SELECTORS = ("x = 1", "x > 3", "x < 2 AND y = 1", "y = 0", "s LIKE 'ab%'", "s = 'abc' OR x = 5", "")
TEXTS = ("abc", "abd", "xyz")


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a simulation."""

    brokers: int = 0
    faults: int = 0
    messages: int = 0
    deliveries: int = 0
    transactions: int = 0
    traces: int = 0
    converged_ms: float = 0.0  # after the last fault was healed


class World:
    def __init__(self, choices: Choices, trace: Trace | None = None) -> None:
        self.choices, self.scenario = choices, random_scenario(choices)
        self.rng = rng = Random(f"actions {choices.seed}")
        one = self.scenario
        self.brokers = Brokers(
            one.graph,
            one.settings,
            choices.seed,
            one.skews_ms,
            trace,
            tracking=one.tracking,
            sizes=one.sizes,
            later=one.later,
        )
        for host in self.brokers.hosts.values():
            host.read_ms = one.read_ms
        self.routers = list(one.settings)
        self.forgetful = {router for router, sizes in one.sizes.items() if forgets_ids(sizes)}
        self._broadcasts = any(settings.broadcast_above for settings in one.settings.values())
        self.pan, self.flooding = choices.overlay == "pan", choices.scheme == "flooding"
        self.typed: Typed | None = None
        self.lasting: LastingEvents | None = None
        if choices.scheme == "hermes":
            later = lambda ms: self.until(self.now + ms)  # noqa: E731
            self.typed = Typed(self.brokers, self.routers, Random(f"types {choices.seed}"), later)
            self.lasting = LastingEvents(self.typed, Random(f"lasting {choices.seed}"))
        worst = Random(f"moments {choices.seed}") if choices.moment != "any" else None
        self.moments = None if worst is None else Moments(self.brokers, worst)
        self.mailboxes: list[Mailbox] = []
        self.consumers: list[Consumer] = []
        transacting = [] if self.flooding else rng.sample(self.routers, min(2, len(self.routers)))
        self.transactors = [Transactor(self.brokers, router, rng, worst) for router in transacting]
        self.writers: dict[int, SimClient] = {}  # by router
        self.again: set[bytes] = set()
        self.calm: set[bytes] = set()
        self.paths: list[Path] = []
        self.converged_ms = 0.0

    # --- the course of a run --------------------------------------------------------------------------------------

    def run(self) -> Outcome:
        """Grow, judge, break, heal, judge, read everything, judge."""
        self.people()
        self.until(self.now + START_MS)
        self.converge("at the start")
        if self.typed is not None:
            self.typed.start()
        self.judge()
        if self.lasting is not None:
            self.lasting.start()
        self.trouble()
        self.until(self.now + FAULTS_MS)
        self.heal()
        healed = self.now
        self.until(self.now + SETTLE_MS)
        self.converge("after healing")
        self.converged_ms = self.now - healed
        if self.typed is not None:
            self.typed.attend()
            self.until(self.now + REPAIR_MS)
        self.safe()
        self.judge()
        self.drain()
        self.safe()
        if self.lasting is not None:
            self.lasting.judge()
        checkers.nothing_lost(self.brokers, self.mailboxes)
        checkers.unacked_comes_again(self.brokers, self.mailboxes)
        groups = [group for one in self.transactors for group in one.groups]
        checkers.whole_transactions(self.brokers, self.mailboxes, groups)
        one_way = self.choices.overlay == "tree"
        checkers.order_per_publisher(self.brokers, self.mailboxes, self.calm, one_way=one_way)
        if self.scenario.tracking is not None:
            self.trace_everything()
        self.begin_anew()
        return self.outcome()

    @property
    def now(self) -> float:
        return self.brokers.calendar.now

    def until(self, at: float) -> None:
        self.brokers.calendar.run(until=at, events_max=EVENTS_MAX)
        assert self.now == at, f"liveness: {EVENTS_MAX} events and no end"

    def converge(self, when: str) -> None:
        """Liveness: it must come to this, in bounded time."""
        limit = self.now + CONVERGE_MS[self.pan]
        lasting = () if self.lasting is None else self.lasting.interests()
        while missing := (
            checkers.converged(self.brokers, pan=self.pan)
            or checkers.interests_known(self.brokers, self.mailboxes, lasting)
        ):
            if self.now >= limit:
                checkers.fail("converges", f"{when}, after {CONVERGE_MS[self.pan]:.0f} ms: {missing}")
            self.until(self.now + POLL_MS)

    def safe(self) -> None:
        checkers.once_only(self.brokers, self.mailboxes, self.forgetful)
        checkers.acked_stays_acked(self.brokers, self.mailboxes, self.forgetful)
        if self.typed is not None:
            self.typed.safe()

    def judge(self) -> None:
        """A calm time: publish, wait, and compare with the truth."""
        before = {router: broker.forwarder.network_stats() for router, broker in self.brokers.running().items()}
        some = self.rng.sample(self.routers, min(3, len(self.routers)))
        published = [one for one in (self.publish(self.rng.choice(some)) for _ in range(10)) if one is not None]
        self.calm |= {one.id for one in published if one.persistent or not self._broadcasts}
        self.until(self.now + QUIET_MS)
        checkers.delivered_in_calm(self.brokers, published)
        if self.typed is not None:
            self.typed.judge()
        self.safe()
        after = {router: broker.forwarder.network_stats() for router, broker in self.brokers.running().items()}
        no_loops(before, after)

    def drain(self) -> None:
        """Everything that waits is read."""
        self.brokers.read_durables()
        self.consume()

    def consume(self) -> None:
        """Until nobody has been given anything for a while: stores may be slow, and bring one message at a time."""
        quiet, given = 0, -1
        while quiet < 5:
            for consumer in self.consumers:
                consumer.work(steady=True)
            self.until(self.now + DRAIN_MS)
            self.brokers.collect()
            readers = [one.got for one in self.mailboxes] + [one.got for one in self.brokers.subscribers]
            before, given = given, sum(got.total() for got in readers)
            quiet = quiet + 1 if given == before else 0

    def begin_anew(self) -> None:
        """All is acknowledged: brokers say that this is on disk, crash, and have nothing more to give out, though
        publishers who heard no receipt send again."""
        answers = [consumer.sync() for consumer in self.consumers]
        self.until(self.now + QUIET_MS)
        if not all(answered() for answered in answers):
            checkers.fail("acked-stays-acked", "nobody says that what was acknowledged is on disk")
        for change in (Crash, Restart):
            for router in {one.router for one in self.mailboxes}:
                inflict(self.brokers.driver, change(router))
        before = {one: len(one.given) for one in self.mailboxes}
        self.send_all_again()
        self.consume()
        checkers.nothing_comes_again(self.mailboxes, before)

    def send_all_again(self) -> None:
        """Messages that entered at a broker with mailboxes, and that no broker may have forgotten, are sent again."""
        if self.flooding:
            return
        forgetting = [one for one in self.mailboxes if one.router in self.forgetful]
        for router in {one.router for one in self.mailboxes}:
            promised = [one for one in self.brokers.publications if one.router == router and one.persistent]
            for one in [one for one in promised if one.clients and one.accepted][-SENT_AGAIN:]:
                if not any(box.router != router and box.wants(one) for box in forgetting):
                    self.brokers.publish_again(one)

    # --- people ---------------------------------------------------------------------------------------------------

    def people(self) -> None:
        rng, strain = self.rng, self.scenario.strain
        if strain is not None:
            self.brokers.subscribe(strain.stopped, "", durable=True)
        for router in self.routers:
            for _ in range(rng.randint(0, 2)):
                self.brokers.subscribe(router, rng.choice(SELECTORS))
            if rng.random() < 0.3:
                self.brokers.subscribe(router, rng.choice(SELECTORS), durable=True)
            if rng.random() < 0.3:
                self.mailbox(router, rng.choice(("durable", "shared", "queue")))

    def mailbox(self, router: int, kind: str) -> None:
        selector = "" if kind == "queue" else self.rng.choice(SELECTORS)
        mailbox = Mailbox(router, len(self.mailboxes) + 1, kind, selector)
        self.mailboxes.append(mailbox)
        asks = None if self.moments is None else self.moments.rng
        for number in range(1 if kind == "durable" else 2):
            consumer = Consumer(self.brokers, mailbox, f"consumer {mailbox.number}.{number}", self.rng, asks)
            self.consumers.append(consumer)
            consumer.work()

    def something(self) -> dict[str, Value]:
        attributes: dict[str, Value] = {"x": self.rng.randint(0, 6), "y": self.rng.randint(0, 1)}
        if self.rng.random() < 0.5:
            attributes["s"] = self.rng.choice(TEXTS)
        return attributes

    def stray_ms(self, router: int) -> float:
        """The time by which the clock of a client of this router is ahead of the calendar."""
        return self.scenario.skews_ms[router] + self.rng.uniform(-SKEW_MS, SKEW_MS)

    def publish(self, router: int | None = None) -> SimulatedPublication | None:
        """By the client that publishes at this router, unless its broker crashed: then by another."""
        rng = self.rng
        if router is None:
            router = rng.choice(self.routers)
        queue = QUEUE if rng.random() < 0.2 else ""
        persistent = rng.random() < 0.5 and (not self.flooding or bool(queue))
        return self._publish(router, persistent, queue)

    def _publish(self, router: int, persistent: bool, queue: str = "") -> SimulatedPublication | None:
        brokers = self.brokers
        broker, writer = brokers.broker(router), self.writers.get(router)
        if broker is None:
            return None
        if writer is not None and broker.clients.get(writer.number) is not writer:
            writer = None
        stray_ms = self.stray_ms(router)
        one = brokers.publish(
            router, self.something(), persistent=persistent, stray_ms=stray_ms, queue=queue, writer=writer
        )
        if one is not None:
            self.writers[router] = one.clients[0]
        return one

    # --- trouble --------------------------------------------------------------------------------------------------

    def trouble(self) -> None:
        calendar, rng, start = self.brokers.calendar, self.rng, self.now
        for at, fault in self.scenario.faults:
            calendar.at(start + at, inflict, self.brokers.driver, fault, self.brokers.hosts)
        for act, times in ((self.publish, 30), (self.publish_again, 4), (self.change, 4), (self.transact, 8)):
            for _ in range(times):
                calendar.at(start + rng.uniform(0, FAULTS_MS), act)
        if self.typed is not None and self.lasting is not None:
            for _ in range(12):
                calendar.at(start + rng.uniform(0, FAULTS_MS), self.typed.publish)
                calendar.at(start + self.lasting.rng.uniform(0, FAULTS_MS), self.lasting.publish)
        if self.moments is not None:
            self.worst_moments(self.moments)
        if (strain := self.scenario.strain) is not None:
            for at in strain.messages:
                calendar.at(start + at, self._publish, strain.publisher, True)
        for consumer in self.consumers:
            for _ in range(12):
                calendar.at(start + rng.uniform(0, FAULTS_MS), consumer.work)

    def worst_moments(self, moments: Moments) -> None:
        calendar, rng, start = self.brokers.calendar, moments.rng, self.now
        if self.choices.moment == "unwritten":
            for router in rng.choices(self.routers, k=8):
                at = start + rng.uniform(0, FAULTS_MS)
                calendar.at(at, moments.when_asked, router)
                calendar.at(at, self.publish, router)
            return
        reading = [one.router for one in self.brokers.subscribers if one.durable]
        reading += [one.router for one in self.mailboxes if one.kind != "queue"]
        for router in rng.sample(reading, min(2, len(reading))):
            calendar.at(start + rng.uniform(0, FAULTS_MS), moments.when_taken, router)
        for one in self.transactors[:1]:
            calendar.at(start + rng.uniform(0, FAULTS_MS), moments.when_committed, one.router)
        for _ in range(6):
            calendar.at(start + rng.uniform(0, FAULTS_MS), self.publish_again, rng)
            calendar.at(start + rng.uniform(0, FAULTS_MS), self.publish_twice, rng)

    def publish_again(self, rng: Random | None = None) -> None:
        """Somebody has no receipt: perhaps it was not accepted. `rng`: it was perhaps, and the receipt not heard."""
        sent = [one for one in self.brokers.publications if one.persistent and one.clients]
        unsure = sent if rng else [one for one in sent if not one.accepted]
        if unsure:
            self._send_again((rng or self.rng).choice(unsure))

    def publish_twice(self, rng: Random) -> None:
        """A connection breaks just after something was sent by it: the first copy may be on its way to disk still."""
        one = self.publish()
        if one is not None and one.persistent:
            self.brokers.calendar.after(rng.uniform(0, 2 * WRITE_MS), self._send_again, one)

    def _send_again(self, one: SimulatedPublication) -> None:
        self.again.add(one.id)
        self.brokers.publish_again(one)

    def transact(self) -> None:
        if self.transactors:
            one = self.rng.choice(self.transactors)
            one.work(self.something(), self.stray_ms(one.router))

    def change(self) -> None:
        """Somebody comes or goes."""
        going = [one for one in self.brokers.subscribers if not one.durable]
        if going and self.rng.random() < 0.5:
            self.brokers.unsubscribe(self.rng.choice(going))
        else:
            self.brokers.subscribe(self.rng.choice(self.routers), self.rng.choice(SELECTORS))

    def heal(self) -> None:
        """All is mended, clogged links one by one in any order; who lost a broker that crashed comes again."""
        brokers, graph = self.brokers, self.scenario.graph
        if self.moments is not None:
            self.moments.end()
        if (later := self.scenario.later) is not None:  # the rest of the rolling change
            for router in self.routers:
                inflict(brokers.driver, Reconfigure(router), brokers.hosts)
                broker = brokers.broker(router)
                if broker is not None and broker.network.settings.encoding != later[router].encoding:
                    inflict(brokers.driver, Crash(router))
        for fault in healing(graph, self.routers):
            inflict(brokers.driver, fault, brokers.hosts)
        links = [(int(edge.a), int(edge.b)) for edge in graph.edges()]
        clogged = [
            (a, b) for one in links for a, b in (one, one[::-1]) if brokers.driver.network.wire(a, b).stuck is not None
        ]
        self.rng.shuffle(clogged)
        for position, (a, b) in enumerate(clogged):
            brokers.calendar.after(self.rng.uniform(0, 300) * position, inflict, brokers.driver, Unclog(a, b))
        running = brokers.running()
        for one in [one for one in brokers.subscribers if not one.durable]:
            client = one.client
            if client is None or running[one.router].clients.get(client.number) is not client:
                brokers.forget(one)
                brokers.subscribe(one.router, one.selector)

    # --- tracking -------------------------------------------------------------------------------------------------

    def trace_everything(self) -> None:
        brokers, faults = self.brokers, [fault for _, fault in self.scenario.faults]
        crashed = {fault.node for fault in faults if isinstance(fault, Crash | LoseHost)}
        crashed |= set() if self.moments is None else self.moments.struck
        crashed |= set() if self.scenario.later is None else set(self.routers)
        asked = [
            (one, brokers.trace(self.rng.choice(self.routers), one.id))
            for one in brokers.publications
            if one.clients and not one.queue
        ]
        self.until(self.now + ANSWER_MS)
        for one, client in asked:
            if len(client.paths) != 1:
                checkers.fail("tracking", f"no answer about {one.id.hex()}: {client.failures}")
            self.paths += client.paths
            who_got = [who for who in [*brokers.subscribers, *brokers.gone] if who.got[one.id]]
            got_by = [
                (who.router, who.name) for who in who_got if who.router not in crashed or not self._late(who, one)
            ]
            sure = not (crashed and (one.persistent or one.id in self.again))
            checkers.tracking_finds_everything(one, client.paths[0], got_by, crashed, sure=sure)

    def _late(self, who: Subscriber, one: SimulatedPublication) -> bool:
        """True if it was delivered so long after its time that a crash just then may have left no trace of it."""
        deliveries = [] if who.client is None else who.client.deliveries
        at = max((delivery.at for delivery in deliveries if delivery.message[ID] == one.id), default=one.at)
        settings = self.scenario.tracking
        return settings is not None and at - one.at > settings.persist_ms / 2

    def outcome(self) -> Outcome:
        got = sum(one.got.total() for one in [*self.brokers.subscribers, *self.brokers.gone])
        return Outcome(
            len(self.routers),
            sum(not isinstance(fault, Restart) for _, fault in self.scenario.faults),
            len(self.brokers.publications),
            got + sum(one.got.total() for one in self.mailboxes),
            sum(len(one.groups) for one in self.transactors),
            len(self.paths),
            self.converged_ms,
        )
