"""Clients that do more than listen: consumers that acknowledge and go away, and whoever publishes in transactions."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import Any, NamedTuple

from hardening import histories
from hardening.histories import Acknowledgement, Delivery
from tidings.model.codec import ID
from tidings.model.values import Value
from tidings.node.requests import Ack, AckMode, Begin, Commit, Credit, Request, Rollback, Subscribe, Sync
from tidings.sim.broker import SimBroker
from tidings.sim.brokers import TOPIC, Brokers, SimulatedPublication, Subscriber
from tidings.sim.client import SimClient, SimulatedDelivery

QUEUE = "work"
CREDIT = 5
SESSION = 7
BEGIN, COMMIT, ROLLBACK = 1, 2, 3  # receipts


class Acknowledged(NamedTuple):
    client: SimClient
    tag: int
    id: bytes
    receipt: int  # 0: it was not asked whether it is on disk

    @property
    def confirmed(self) -> bool:
        return self.receipt in self.client.done


@dataclass(eq=False)
class Mailbox:
    """A durable or shared subscription, or a queue, and what all its consumers together were given."""

    router: int
    number: int
    kind: str  # "durable", "shared", "queue"
    selector: str = ""
    got: Counter[bytes] = field(default_factory=Counter)
    given: list[Delivery] = field(default_factory=list)
    acknowledged: list[Acknowledged] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"{self.kind} {self.number} at router {self.router}"

    def request(self) -> Subscribe:
        common = {"ack": AckMode.CLIENT, "credit": CREDIT}
        if self.kind == "queue":
            return Subscribe(1, 1, f"queue:{QUEUE}", **common)  # type: ignore[arg-type]
        name = {"durable": f"mailbox {self.number}"}
        if self.kind == "shared":
            name = {"shared": f"group {self.number}", "durable": f"group {self.number}"}
        return Subscribe(1, 1, TOPIC, self.selector, **common, **name)  # type: ignore[arg-type]

    def wants(self, one: SimulatedPublication) -> bool:
        if self.kind == "queue":
            return one.queue == QUEUE and one.router == self.router
        return not one.queue and Subscriber(self.router, 0, self.selector).wants(one.attributes)

    def take(self, delivery: SimulatedDelivery, life: int) -> None:
        id = delivery.message[ID]
        self.got[id] += 1
        self.given.append(Delivery(delivery.at, life, delivery.tag, delivery.attempt, id))

    def first_given(self) -> list[bytes]:
        """In the order in which each was given for the first time, to whichever consumer."""
        return histories.first_given(self.given)

    def unmarked(self) -> list[bytes]:
        """Messages that came again without a mark. Consumers look at deliveries when they please, so the time of
        arrival counts."""
        return histories.unmarked(self.given)

    def given_again(self) -> list[bytes]:
        """Messages that came once more although they were acknowledged: to a broker that has not restarted since, or
        one that said that this is on disk."""
        done = [Acknowledgement(one.client.life, one.tag, one.id, one.confirmed) for one in self.acknowledged]
        return histories.given_again(self.given, done)


class Consumer:
    """Takes what it is given, acknowledges most of it, sometimes goes away with the rest, and comes again.
    `asks`: by whose chance it asks whether an acknowledgement is on disk; None: it never does."""

    def __init__(self, brokers: Brokers, mailbox: Mailbox, name: str, rng: Random, asks: Random | None = None) -> None:
        self.brokers, self.mailbox, self.name, self.rng, self.asks = brokers, mailbox, name, rng, asks
        self.client: SimClient | None = None
        self._taken = 0
        self._held: dict[int, bytes] = {}  # by tag
        self._receipts = count(2)  # 1 is that of the subscription

    @property
    def attached(self) -> bool:
        broker, client = self.brokers.broker(self.mailbox.router), self.client
        return broker is not None and client is not None and broker.clients.get(client.number) is client

    def work(self, *, steady: bool = False) -> None:
        """`steady`: acknowledge everything and stay."""
        if self.brokers.frozen(self.mailbox.router):
            return
        self._take()
        if not self.attached or (self.client is not None and self.client.failures):
            self._leave()
            self._attach()
        elif not steady and self.rng.random() < 0.1:
            self._leave()
        else:
            self._acknowledge(steady=steady)

    def sync(self) -> Callable[[], bool]:
        """Ask whether all it has acknowledged is on disk; the answer, later."""
        client, request = self.client, Sync(next(self._receipts))
        assert client is not None
        self._call(lambda machine, now: machine.request(now, client, request))
        return lambda: request.receipt in client.done

    def _call(self, act: Callable[[SimBroker, float], list[Any]]) -> None:
        self.brokers.driver.call(str(self.mailbox.router), act)

    def _attach(self) -> None:
        def act(machine: SimBroker, now: float) -> list[Any]:
            self.client = machine.connect(now, self.name)
            return machine.request(now, self.client, self.mailbox.request())

        self._taken, self._held = 0, {}
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
                self.mailbox.take(delivery, self.client.life)
                self._held[delivery.tag] = delivery.message[ID]
            if len(self._held) > CREDIT:
                raise AssertionError(f"credit: {self.name} was given {len(self._held)} and has room for {CREDIT}")

    def _acknowledge(self, *, steady: bool) -> None:
        done = list(self._held) if steady else [tag for tag in self._held if self.rng.random() < 0.7]
        client = self.client
        if not done or client is None:
            return
        receipt = next(self._receipts) if self.asks and self.asks.random() < 0.6 else 0
        requests: list[Request] = [Ack(1, tuple(done)), Credit(1, len(done))]
        if receipt:
            requests.append(Sync(receipt))
        self.mailbox.acknowledged += [Acknowledged(client, tag, self._held.pop(tag), receipt) for tag in done]
        for request in requests:
            self._call(lambda machine, now, request=request: machine.request(now, client, request))  # type: ignore[misc]


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
    """Publishes groups of messages in transactions; what has a key it tries again until it hears that it happened.
    `leaves`: by whose chance it goes away before it hears; None: it never does."""

    def __init__(self, brokers: Brokers, router: int, rng: Random, leaves: Random | None = None) -> None:
        self.brokers, self.router, self.rng, self.leaves = brokers, router, rng, leaves
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
                one = SimulatedPublication(self.router, message[ID], attributes, True, 0, [], self.brokers.calendar.now)
                one.committed = lambda: group.committed
                self.brokers.publications.append(one)

    def attempt(self, group: Group) -> bool:
        if self.brokers.broker(self.router) is None or self.brokers.frozen(self.router):
            return False

        def act(machine: SimBroker, now: float) -> list[Any]:
            client = machine.connect(now)
            group.clients.append(client)
            out = machine.request(now, client, Begin(BEGIN, SESSION))
            for message in group.messages:
                out += machine.publish(now, client, message, session=SESSION)
            if group.rolled_back:
                return out + machine.request(now, client, Rollback(ROLLBACK, SESSION))
            out += machine.request(now, client, Commit(COMMIT, SESSION, group.key, group.number))
            if group.key and self.leaves is not None and self.leaves.random() < 0.5:
                out += machine.disconnect(now, client)
            return out

        self.brokers.driver.call(str(self.router), act)
        return True
