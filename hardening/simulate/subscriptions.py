"""A run of brokers with durable and shared subscriptions of the network: subscribers that move from broker to broker,
groups with members everywhere, publishers, faults; judged as queues are (`queues`).

What is promised of a message depends on what its publisher's broker knew: once that had the subscription's interest in
its tables when a persistent message entered, that message and all later ones are for the subscription. So a broker that
gives a subscription up before others know where it went is noticed.
"""

from dataclasses import dataclass, field

from hardening.simulate.queues import CREDIT, QueueConsumer, QueuesWorld
from tidings.model.codec import encode_predicate
from tidings.model.destination import DestinationPattern
from tidings.model.selector import Selector
from tidings.model.values import Value
from tidings.node.clients.subscription_plan import durable_name, predicate_of
from tidings.node.requests import AckMode, Subscribe
from tidings.routing.bdrp.local_interests import LocalInterests
from tidings.sim.broker import SimBroker
from tidings.sim.brokers import TOPIC, SimulatedPublication
from tidings.sim.client import SimClient
from tidings.sim.faults import CutLink, HealLink, inflict

KINDS = ("durable", "durable", "shared-durable", "shared")
APART_SHARE, APART_MS = 0.6, (1_500.0, 5_000.0)
NOTED_MS = 2_000.0  # a broker that has accepted a message for others has in its store whom it was for


@dataclass(eq=False)
class MovingSubscriber(QueueConsumer):
    """A subscriber that comes back at any broker."""

    kind: str = "durable"
    skews_ms: dict[int, float] = field(default_factory=dict)

    def request(self) -> Subscribe:
        durable = "" if self.kind == "shared" else self.queue
        shared = "" if self.kind == "durable" else self.queue
        selector = f"n = '{self.queue}'"
        return Subscribe(1, 1, TOPIC, selector, ack=AckMode.CLIENT, durable=durable, shared=shared, credit=CREDIT)

    def _attach(self) -> None:
        self.router = self.rng.choice(list(self.skews_ms))
        self.skew_ms = self.skews_ms[self.router]
        super()._attach()


class SubscriptionsWorld(QueuesWorld):
    title, repeats = "subscriptions", 0.0

    def people(self) -> None:
        rng = self.rng
        self.kinds = {name: rng.choice(KINDS) for name in self.names}
        self.expected: set[bytes] = set()
        self.apart = rng.random() < APART_SHARE
        self.ordered_marks = not self.apart and not self.faults  # see docs/networks.md, "Made twice"
        if self.apart:
            self._cut()
        self._sent: dict[tuple[int, str], list[SimulatedPublication]] = {}  # those expected, by router and name
        for name, kind in self.kinds.items():
            many = 1 if kind == "durable" else rng.choice((1, 2, 3))
            if many == 1:
                self.single.add(name)
            for number in range(many):
                router, called = rng.choice(self.routers), f"{name} {0 if kind == 'durable' else number}"
                history, skew_ms = self.histories[name], self.skews_ms[router]
                one = MovingSubscriber(
                    self.brokers, router, name, "", called, rng, history, skew_ms, kind=kind, skews_ms=self.skews_ms
                )
                self.consumers.append(one)

    def _cut(self) -> None:
        """Some links are down while subscriptions are made, so that several brokers keep one."""
        edges = [(int(edge.a), int(edge.b)) for edge in self.graph.edges()]
        for a, b in self.rng.sample(edges, self.rng.randint(1, len(edges))):
            inflict(self.brokers.driver, CutLink(a, b))
            self.brokers.calendar.at(
                self.now + self.rng.uniform(*APART_MS), inflict, self.brokers.driver, HealLink(a, b)
            )

    def _order(self, name: str) -> None:
        if not self.apart:  # what was kept apart is put together in any order
            super()._order(name)

    def mailbox(self, name: str) -> str:
        kind = self.kinds[name]
        return durable_name(f"{name} 0", name) if kind == "durable" else f"{kind}:{name}"

    def send(
        self, router: int, name: str, attributes: dict[str, Value], *, persistent: bool, writer: SimClient | None
    ) -> SimulatedPublication | None:
        broker = self.brokers.broker(router)
        known = broker is not None and self._knows(broker, name)
        before = self._sent.setdefault((router, name), [])
        known |= any(one.accepted and self.now - one.at >= NOTED_MS for one in before)
        one = self.brokers.publish(router, attributes | {"n": name}, persistent=persistent, writer=writer)
        if one is not None and known and persistent:
            self.expected.add(one.id)
            before.append(one)
        return one

    def promised(self, one: SimulatedPublication) -> bool:
        durable = self.kinds[str(one.attributes["n"])] != "shared"
        return durable and one.accepted and one.id in self.expected

    def _knows(self, broker: SimBroker, name: str) -> bool:
        """Reports whether what enters at the broker now is for the subscription."""
        mailboxes = broker.engine.node.mailbox_service.mailboxes
        mailbox = mailboxes.by_name.get(self.mailbox(name))
        if mailbox is not None and mailboxes.by_sink.get(mailboxes.sinks[mailbox][0]) is mailbox:
            return True
        rows = LocalInterests(broker.network.settings.encoding)
        pattern = DestinationPattern.parse(TOPIC)
        rows.add(encode_predicate(predicate_of(pattern, Selector(f"n = '{name}'"))))
        return any(rows.rows() <= one for one in broker.network.scheme.predicates.values())
