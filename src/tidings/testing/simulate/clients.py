"""Clients that do more than listen: consumers that acknowledge and go away, and whoever publishes in transactions."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tidings.model.values import Value
from tidings.node.requests import Ack, AckMode, Begin, Commit, Rollback, Subscribe
from tidings.sim.broker import ID, Delivery, SimBroker, SimClient
from tidings.sim.brokers import TOPIC, Brokers, Publication, Subscriber

QUEUE = "work"
CREDIT = 5
SESSION = 7
BEGIN, COMMIT, ROLLBACK = 1, 2, 3  # receipts


@dataclass(eq=False)
class Mailbox:
    """A durable or shared subscription, or a queue, and what all its consumers together were given."""

    router: int
    number: int
    kind: str  # "durable", "shared", "queue"
    selector: str = ""
    got: Counter[bytes] = field(default_factory=Counter)
    order: list[bytes] = field(default_factory=list)  # of what came for the first time
    given: list[tuple[float, int, int, bytes]] = field(default_factory=list)  # when, tag, attempt, id

    def request(self) -> Subscribe:
        common = {"ack": AckMode.CLIENT, "credit": CREDIT, "window": True}
        if self.kind == "queue":
            return Subscribe(1, 1, f"queue:{QUEUE}", **common)  # type: ignore[arg-type]
        name = {"durable": f"mailbox {self.number}"}
        if self.kind == "shared":
            name = {"shared": f"group {self.number}", "durable": f"group {self.number}"}
        return Subscribe(1, 1, TOPIC, self.selector, **common, **name)  # type: ignore[arg-type]

    def wants(self, one: Publication) -> bool:
        if self.kind == "queue":
            return one.queue == QUEUE and one.router == self.router
        return not one.queue and Subscriber(self.router, 0, self.selector).wants(one.attributes)

    def take(self, delivery: Delivery) -> None:
        id = delivery.message[ID]
        if not self.got[id]:
            self.order.append(id)
        self.got[id] += 1
        self.given.append((delivery.at, delivery.tag, delivery.attempt, id))

    def unmarked(self) -> list[bytes]:
        """What came again and did not say so. Consumers look at what they were given when they please, so what counts
        is when it came."""
        seen: set[bytes] = set()
        wrong = []
        for _, _, attempt, id in sorted(self.given):
            if id in seen and attempt <= 1:
                wrong.append(id)
            seen.add(id)
        return wrong


class Consumer:
    """Takes what it is given, acknowledges most of it, sometimes goes away with the rest, and comes again."""

    def __init__(self, brokers: Brokers, mailbox: Mailbox, name: str, rng: Random) -> None:
        self.brokers, self.mailbox, self.name, self.rng = brokers, mailbox, name, rng
        self.client: SimClient | None = None
        self._taken = 0
        self._held: list[int] = []  # tags

    @property
    def attached(self) -> bool:
        broker, client = self.brokers.broker(self.mailbox.router), self.client
        return broker is not None and client is not None and broker.clients.get(client.number) is client

    def work(self, *, steady: bool = False) -> None:
        """`steady`: acknowledge everything and stay."""
        self._take()
        if not self.attached or (self.client is not None and self.client.failures):
            self._leave()
            self._attach()
        elif not steady and self.rng.random() < 0.1:
            self._leave()
        else:
            self._acknowledge(steady=steady)

    def _call(self, act: Callable[[SimBroker, float], list[Any]]) -> None:
        self.brokers.driver.call(str(self.mailbox.router), act)

    def _attach(self) -> None:
        def act(machine: SimBroker, now: float) -> list[Any]:
            self.client = machine.connect(self.name)
            return machine.request(now, self.client, self.mailbox.request())

        self._taken, self._held = 0, []
        self._call(act)

    def _leave(self) -> None:
        client = self.client
        if client is not None and self.attached:
            self._call(lambda machine, now: machine.disconnect(now, client))
            self._take()
        self.client = None

    def _take(self) -> None:
        if self.client is not None:
            new = self.client.deliveries[self._taken :]
            self._taken += len(new)
            for delivery in new:
                self.mailbox.take(delivery)
                self._held.append(delivery.tag)

    def _acknowledge(self, *, steady: bool) -> None:
        done = self._held if steady else [tag for tag in self._held if self.rng.random() < 0.7]
        if done and self.client is not None:
            client, request = self.client, Ack(1, tuple(done))
            self._held = [tag for tag in self._held if tag not in done]
            self._call(lambda machine, now: machine.request(now, client, request))


@dataclass(eq=False)
class Group:
    """Messages of one transaction."""

    router: int
    messages: list[bytes]
    attributes: dict[str, Value]
    key: str  # empty: it happens whenever it is committed
    number: int
    rolled_back: bool = False
    clients: list[SimClient] = field(default_factory=list)

    @property
    def ids(self) -> list[bytes]:
        return [message[ID] for message in self.messages]

    @property
    def committed(self) -> bool:
        return any(COMMIT in client.done for client in self.clients)

    @property
    def refused(self) -> bool:
        """The broker said that nothing of it happened, each time."""
        return all(client.failures for client in self.clients)


class Transactor:
    """Publishes groups of messages in transactions; what has a key it tries again until it hears that it happened."""

    def __init__(self, brokers: Brokers, router: int, rng: Random) -> None:
        self.brokers, self.router, self.rng = brokers, router, rng
        self.groups: list[Group] = []

    def work(self, attributes: dict[str, Value], stray_ms: float = 0.0) -> None:
        last = self.groups[-1] if self.groups else None
        if last is not None and last.key and not last.committed:
            self.attempt(last)
            return
        messages = [
            self.brokers.message(self.router, attributes, persistent=True, stray_ms=stray_ms)
            for _ in range(self.rng.randint(2, 4))
        ]
        key = f"transactor {self.router}" if self.rng.random() < 0.5 else ""
        group = Group(self.router, messages, attributes, key, len(self.groups) + 1, not key and self.rng.random() < 0.2)
        if self.attempt(group):
            self.groups.append(group)
            for message in messages:
                one = Publication(self.router, message[ID], attributes, True, 0, [], self.brokers.calendar.now)
                one.committed = lambda: group.committed
                self.brokers.publications.append(one)

    def attempt(self, group: Group) -> bool:
        if self.brokers.broker(self.router) is None:
            return False

        def act(machine: SimBroker, now: float) -> list[Any]:
            client = machine.connect()
            group.clients.append(client)
            out = machine.request(now, client, Begin(BEGIN, SESSION))
            for message in group.messages:
                out += machine.publish(now, client, message, session=SESSION)
            if group.rolled_back:
                return out + machine.request(now, client, Rollback(ROLLBACK, SESSION))
            return out + machine.request(now, client, Commit(COMMIT, SESSION, group.key, group.number))

        self.brokers.driver.call(str(self.router), act)
        return True
