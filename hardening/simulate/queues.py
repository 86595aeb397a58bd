"""A run of brokers with queues of the network: publishers and consumers everywhere, faults, and named checkers.

exactly-one     each message comes to one consumer; whoever gets it after that, gets it marked
nothing-lost    what was accepted and is persistent was acknowledged by somebody, once all is healed and read
stays-done      what was acknowledged, and is on disk by the word of the broker, does not come again unmarked
one-home        all brokers know the same home of each queue, and nobody else keeps messages of it
publishers-order  a queue's only consumer gets what one publisher sent in its order, for the first time, while nothing
                is broken
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, NoReturn

from hardening.simulate.fault_plans import healing
from hardening.simulate.scenario import FAR_STEP_MS, LINK, SHAPES
from hardening.simulate.sizes import random_sizes
from hardening.simulate.world import Outcome
from tidings.delivery.policy import QueuePolicy, QueueScope
from tidings.model.codec import ID
from tidings.model.destination import DestinationPattern
from tidings.model.values import Value
from tidings.node.network.held_copies import EmptyStoreOptions
from tidings.node.network.settings import NetworkSettings
from tidings.node.requests import Ack, AckMode, Begin, Commit, Credit, Request, Subscribe, Sync, Unsubscribe, Verdict
from tidings.overlay.topology.graph import Graph
from tidings.sim.broker import SimBroker, Sizes
from tidings.sim.brokers import Brokers, SimulatedPublication
from tidings.sim.client import SimClient
from tidings.sim.driver import Trace
from tidings.sim.faults import Fault, Unclog, inflict, random_faults

NAMES = ("work", "orders", "mail")
SELECTORS = ("", "", "", "x > 2")
CREDIT, SESSION = 4, 7
CALM_MS, FAULTS_MS, SETTLE_MS, READ_MS = 4_000.0, 9_000.0, 16_000.0, 400.0
ROUNDS_MAX, QUIET_ROUNDS = 200, 12
EVENTS_MAX = 3_000_000


def fail(checker: str, reason: str) -> NoReturn:
    raise AssertionError(f"{checker}: {reason}")


@dataclass
class QueueHistory:
    """The deliveries to the consumers of a queue, and what they acknowledged."""

    given: dict[bytes, list[tuple[float, int, str]]] = field(default_factory=dict)  # by id: when, attempt, to whom
    acknowledged: set[bytes] = field(default_factory=set)
    on_disk: dict[bytes, float] = field(default_factory=dict)  # since when, by the word of a broker


@dataclass(eq=False)
class QueueConsumer:
    """A consumer at one broker, which takes, settles, leaves and comes again."""

    brokers: Brokers
    router: int
    queue: str
    selector: str
    name: str
    rng: Random
    history: QueueHistory
    skew_ms: float  # of its broker's clock
    client: SimClient | None = None
    order: list[tuple[bytes, int]] = field(default_factory=list)
    _taken: int = 0
    _held: dict[int, bytes] = field(default_factory=dict)
    _asked: dict[int, list[bytes]] = field(default_factory=dict)  # by receipt: acknowledged before
    _receipt: int = 1

    @property
    def attached(self) -> bool:
        broker, client = self.brokers.broker(self.router), self.client
        alive = broker is not None and client is not None and broker.clients.get(client.number) is client
        return alive and client is not None and not (client.ended or client.failures)

    def work(self, *, steady: bool) -> None:
        if self.brokers.frozen(self.router):
            return
        self.take()
        if not self.attached:
            self._leave()
            self._attach()
        elif not steady and self.rng.random() < 0.08:
            self._leave()
        elif self._held:
            self._settle(steady=steady)

    def take(self) -> None:
        client = self.client
        if client is None:
            return
        for delivery in client.deliveries[self._taken :]:
            id = delivery.message[ID]
            self.history.given.setdefault(id, []).append((delivery.at - self.skew_ms, delivery.attempt, self.name))
            self.order.append((id, delivery.attempt))
            self._held[delivery.tag] = id
        self._taken = len(client.deliveries)
        for receipt in [one for one in self._asked if one in client.done]:
            for id in self._asked.pop(receipt):
                self.history.on_disk.setdefault(id, self.brokers.calendar.now)

    def request(self) -> Subscribe:
        return Subscribe(1, 1, f"queue:{self.queue}", self.selector, ack=AckMode.CLIENT, credit=CREDIT)

    def call(self, act: Callable[[SimBroker, float], list[Any]]) -> None:
        self.brokers.driver.call(str(self.router), act)

    def _attach(self) -> None:
        if self.brokers.broker(self.router) is None:
            return

        def act(machine: SimBroker, now: float) -> list[Any]:
            self.client = machine.connect(now, self.name)
            return machine.request(now, self.client, self.request())

        self._taken, self._held, self._asked = 0, {}, {}
        self.call(act)

    def _leave(self) -> None:
        client, broker = self.client, self.brokers.broker(self.router)
        if client is not None and broker is not None and broker.clients.get(client.number) is client:
            if self.rng.random() < 0.3:
                self._ask(Unsubscribe(90, 1))
            self.call(lambda machine, now: machine.disconnect(now, client))
        self.take()
        self.client = None

    def _ask(self, *requests: Request) -> None:
        client = self.client
        assert client is not None
        for request in requests:
            self.call(lambda machine, now, request=request: machine.request(now, client, request))  # type: ignore[misc]

    def _settle(self, *, steady: bool) -> None:
        tags = list(self._held) if steady else [tag for tag in self._held if self.rng.random() < 0.7]
        if not tags:
            return
        kind = 1.0 if steady else self.rng.random()
        ids = [self._held.pop(tag) for tag in tags]
        more = Credit(1, len(tags))
        if kind < 0.1:
            self._ask(Ack(1, tuple(tags), verdict=Verdict.RETRY), more)
        elif kind < 0.15:
            self._ask(Ack(1, tuple(tags), verdict=Verdict.RELEASE), more)
            for id in ids:  # as if it had not been delivered
                self.history.given[id] = [one for one in self.history.given[id] if one[2] != self.name or one[1] > 1]
        elif kind < 0.3:
            self._receipt += 2
            begin, commit = Begin(self._receipt, SESSION), Commit(self._receipt + 1, SESSION)
            self._receipt += 2
            self._ask(begin, Ack(1, tuple(tags), session=SESSION), commit, more)
            self._asked[commit.receipt] = []  # the home hears of it after the commit: it may be too late
            self.history.acknowledged.update(ids)
        else:
            self._receipt += 2
            self._ask(Ack(1, tuple(tags)), more, Sync(self._receipt))
            self._asked[self._receipt] = ids
            self.history.acknowledged.update(ids)


class QueuesWorld:
    title = "queues"
    ordered_marks = True  # what comes unmarked comes first
    repeats = 0.08  # of publications, that publishers send again

    def __init__(self, seed: int, trace: Trace | None = None) -> None:
        self.rng = rng = Random(f"{self.title} {seed}")
        self.graph, self.tree = _graph(rng)
        self.routers = sorted(int(node) for node in self.graph)
        self.names = NAMES[: rng.randint(1, 3)]
        configured = {name: rng.choice(self.routers) for name in self.names if rng.random() < 0.3}
        policies = [
            QueuePolicy(DestinationPattern.parse(f"queue:{name}"), scope=QueueScope.NETWORK, home=home)
            for name, home in configured.items()
        ]
        policies += policies_of_world()
        self.faults = self._faults(rng)
        self.skews_ms = skews_ms = {router: rng.uniform(0, 1000) for router in self.routers}
        self.brokers = Brokers(self.graph, self._settings(rng), seed, skews_ms, trace, sizes=self._sizes(rng, policies))
        self.histories = {name: QueueHistory() for name in self.names}
        self.consumers: list[QueueConsumer] = []
        self.single: set[str] = set()
        self.published: dict[str, list[SimulatedPublication]] = {name: [] for name in self.names}
        self.writers: dict[int, SimClient] = {}
        self.calm: set[bytes] = set()

    def _settings(self, rng: Random) -> dict[int, NetworkSettings]:
        settings, unicast = {}, rng.choice(("link-state", "link-state", "distance-vector"))
        for router in self.routers:
            peers = {int(peer): int(edge.latency_ms) for peer, edge in self.graph.neighbours(router).items()}
            dials = tuple((str(peer), peer) for peer in peers if peer > router)
            settings[router] = NetworkSettings(
                router,
                "simulated",
                dials,
                unicast,
                costs=peers,
                window_bytes=rng.choice((300, 1 << 20)),
                link=LINK,
                empty_store=EmptyStoreOptions(wait_ms=1000.0),
            )
        return settings

    def _sizes(self, rng: Random, policies: list[QueuePolicy]) -> dict[int, Sizes]:
        drawn = {router: random_sizes(rng) if rng.random() < 0.5 else Sizes() for router in self.routers}
        scope = QueueScope.NETWORK
        return {
            router: replace(one, settings=replace(one.settings, policies=tuple(policies), subscription_scope=scope))
            for router, one in drawn.items()
        }

    def _faults(self, rng: Random) -> list[tuple[float, Fault]]:
        if rng.random() < 0.1:
            return []
        return random_faults(self.graph, rng, rng.randint(1, 8), FAULTS_MS, step_ms=FAR_STEP_MS)

    # --- the course of a run --------------------------------------------------------------------------------------

    def run(self) -> Outcome:
        """Use queues, break, heal, read everything, judge."""
        if self.rng.random() < 0.7:  # otherwise queues are used before brokers know each other
            self.until(self.now + 2_500)
        self.people()
        self.busy(CALM_MS, breaks=False)
        start = self.now
        for at, fault in self.faults:
            self.brokers.calendar.at(start + at, inflict, self.brokers.driver, fault, self.brokers.hosts)
        self.busy(FAULTS_MS, breaks=True)
        self.heal()
        self.busy(SETTLE_MS, breaks=False)
        self.read()
        self.judge()
        given = sum(len(one) for history in self.histories.values() for one in history.given.values())
        messages = sum(len(one) for one in self.published.values())
        return Outcome(len(self.routers), len(self.faults), messages, given)

    @property
    def now(self) -> float:
        return self.brokers.calendar.now

    def until(self, at: float) -> None:
        self.brokers.calendar.run(until=at, events_max=EVENTS_MAX)
        assert self.now == at, f"liveness: {EVENTS_MAX} events and no end"

    def people(self) -> None:
        rng = self.rng
        for name in self.names:
            many = rng.choice((1, 1, 2, 3))
            if many == 1:
                self.single.add(name)
            for number in range(many):
                selector = "" if number == 0 else rng.choice(SELECTORS)
                router = rng.choice(self.routers)
                history, skew_ms = self.histories[name], self.skews_ms[router]
                called = f"{name} {number}"
                self.consumers.append(
                    QueueConsumer(self.brokers, router, name, selector, called, rng, history, skew_ms)
                )

    def busy(self, ms: float, *, breaks: bool) -> None:
        """People publish and consume for a while."""
        end, publishing = self.now + ms, self.now + min(ms, FAULTS_MS) * 0.8
        while self.now < end:
            self.until(min(end, self.now + self.rng.uniform(20, 250)))
            if self.now < publishing:
                self.publish(calm=not breaks)
            for consumer in self.consumers:
                if self.rng.random() < 0.5:
                    consumer.work(steady=consumer.queue in self.single and not breaks)

    def publish(self, *, calm: bool) -> None:
        rng, router, name = self.rng, self.rng.choice(self.routers), self.rng.choice(self.names)
        broker, writer = self.brokers.broker(router), self.writers.get(router)
        if broker is None or self.brokers.frozen(router):
            return
        if writer is not None and broker.clients.get(writer.number) is not writer:
            writer = None
        if rng.random() < self.repeats and self.published[name]:
            self.brokers.publish_again(rng.choice(self.published[name]))
        attributes: dict[str, Value] = {"x": rng.randint(0, 6)}
        one = self.send(router, name, attributes, persistent=rng.random() < 0.8, writer=writer)
        if one is not None:
            self.writers[router] = one.clients[0]
            self.published[name].append(one)
            if calm and not self.faults:
                self.calm.add(one.id)

    def send(
        self, router: int, name: str, attributes: dict[str, Value], *, persistent: bool, writer: SimClient | None
    ) -> SimulatedPublication | None:
        return self.brokers.publish(router, attributes, persistent=persistent, queue=name, writer=writer)

    def heal(self) -> None:
        brokers = self.brokers
        for fault in healing(self.graph, self.routers):
            inflict(brokers.driver, fault, brokers.hosts)
        for edge in self.graph.edges():
            for a, b in ((int(edge.a), int(edge.b)), (int(edge.b), int(edge.a))):
                if brokers.driver.network.wire(a, b).stuck is not None:
                    inflict(brokers.driver, Unclog(a, b))

    def read(self) -> None:
        """Everything that waits, until nothing comes for a while."""
        quiet, before = 0, -1
        for _ in range(ROUNDS_MAX):
            for consumer in self.consumers:
                consumer.work(steady=True)
            self.until(self.now + READ_MS)
            after = sum(len(consumer.order) for consumer in self.consumers)
            quiet = quiet + 1 if after == before else 0
            before = after
            if quiet == QUIET_ROUNDS:
                return
        fail("liveness", f"queues are still being read after {ROUNDS_MAX} rounds")

    # --- checkers -------------------------------------------------------------------------------------------------

    def judge(self) -> None:
        for name in self.names:
            self._exactly_one(name, self.histories[name])
            self._nothing_lost(name, self.histories[name])
            self._one_home(self.mailbox(name))
            if name in self.single and not self.faults:
                self._order(name)

    def mailbox(self, name: str) -> str:
        return f"queue:{name}"

    def promised(self, one: SimulatedPublication) -> bool:
        """It must be acknowledged by somebody."""
        return one.persistent and one.accepted

    def _exactly_one(self, name: str, history: QueueHistory) -> None:
        for id, given in history.given.items():
            first = [one for one in given if one[1] <= 1]
            if len(first) > 1:
                fail("exactly-one", f"{name}: {id.hex()} came unmarked {len(first)} times: {sorted(given)}")
            done = history.on_disk.get(id)
            if done is not None and self.ordered_marks and any(at > done for at, _, _ in first):
                fail("stays-done", f"{name}: {id.hex()} came unmarked after it was acknowledged: {sorted(given)}")

    def _nothing_lost(self, name: str, history: QueueHistory) -> None:
        for one in self.published[name]:
            if self.promised(one) and one.id not in history.acknowledged:
                came = history.given.get(one.id, [])
                fail(
                    "nothing-lost",
                    f"{name}: {one.id.hex()} of router {one.router} was not acknowledged; it came: {came}",
                )

    def _one_home(self, queue: str) -> None:
        homes: Counter[int | None] = Counter()
        for router, broker in self.brokers.running().items():
            queues = broker.engine.node.network_queues
            assert queues is not None
            home = queues.home(queue)
            homes[home] += 1
            mailbox = broker.engine.node.mailbox_service.mailboxes.by_name.get(queue)
            if mailbox is not None and home != router and mailbox.messages:
                fail("one-home", f"router {router} keeps {mailbox.messages} messages of {queue}, whose home is {home}")
        if len(homes) > 1:
            fail("one-home", f"homes of {queue}: {dict(homes)}")

    def _order(self, name: str) -> None:
        (consumer,) = [one for one in self.consumers if one.queue == name]
        firsts = list(dict.fromkeys(id for id, _ in consumer.order))
        for router in self.routers:
            sent = [one.id for one in self.published[name] if one.router == router and one.id in self.calm]
            got = [id for id in firsts if id in set(sent)]
            there = [id for id in sent if id in set(got)]
            if self.tree and got != there:
                fail("publishers-order", f"{name}: messages of router {router} came in another order")


def policies_of_world(home: int = 0) -> tuple[QueuePolicy, ...]:
    """All queues are the network's."""
    return (QueuePolicy(DestinationPattern.parse("queue:>"), scope=QueueScope.NETWORK, home=home),)


def _graph(rng: Random) -> tuple[Graph, bool]:
    shape = rng.choice(("tree", "ring", "waxman"))
    graph, drawn = Graph(), SHAPES[shape](rng.randint(3, 6), rng)
    for edge in drawn.edges():
        graph.add(int(edge.a) + 1, int(edge.b) + 1, latency_ms=rng.choice((1, 2, 5, 20)))
    return graph, shape == "tree"
