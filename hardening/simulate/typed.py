"""Events of types, where the scheme is Hermes: who adds types, subscribes to them and publishes, and what they get.

Judged at any time: nobody gets an event twice, or one that does not match. Judged in calm times, when what brokers lost
has been said again: everybody gets exactly what matches.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tidings.kernel.codec import encode_message
from tidings.model.codec import ID
from tidings.model.destination import Destination
from tidings.model.event_type import AttributeType, EventType
from tidings.model.event_type_topics import topic_of
from tidings.model.message import Message
from tidings.model.message_id import MessageId
from tidings.model.selector import Selector
from tidings.node.requests import AddType, AdvertiseType, Subscribe
from tidings.routing.hermes import HermesOptions
from tidings.sim.broker import Action, SimBroker
from tidings.sim.brokers import Brokers
from tidings.sim.client import SimClient

OPTIONS = HermesOptions(refresh_ms=2_000, lifetime_ms=7_000, settle_ms=5_000)
REPAIR_MS = 3 * OPTIONS.lifetime_ms  # until what brokers that crashed had said is forgotten, and said again
TYPES = (EventType("Tick", None, {"x": AttributeType.INT}), EventType("Deal", "Tick", {}))
PATHS = {"Tick": ("Tick",), "Deal": ("Tick", "Deal")}
SELECTORS = ("", "x = 1", "x > 3", "x < 2")
WAIT_MS, ATTEMPTS = 500.0, 40
QUIET_MS = 3_000.0


@dataclass(eq=False)
class Listener:
    router: int
    type: str
    selector: str
    client: SimClient | None = None
    lives: list[SimClient] = field(default_factory=list)

    def wants(self, type: str, x: int) -> bool:
        return self.type in PATHS[type] and Selector(self.selector).matches({"x": x}) is True


class Typed:
    """`until(ms)` lets the network go on for so long."""

    def __init__(self, brokers: Brokers, routers: list[int], rng: Random, until: Callable[[float], None]) -> None:
        self.brokers, self.routers, self.rng, self.until = brokers, routers, rng, until
        self.listeners = [
            Listener(router, rng.choice(("Tick", "Deal")), rng.choice(SELECTORS))
            for router in routers
            if rng.random() < 0.7
        ]
        self.publishers: dict[tuple[int, str], SimClient] = {}
        self.events: dict[bytes, tuple[str, int]] = {}

    def start(self) -> None:
        for one in TYPES:
            client = self.ask(self.rng.choice(self.routers), AddType(1, one))
            assert 1 in client.done, f"types: {one.name} was not added: {client.failures}"
        self.attend()

    def attend(self) -> None:
        """Reconnect clients whose broker crashed."""
        for one in self.listeners:
            if not self._here(one.router, one.client):
                one.client = self.ask(one.router, Subscribe(1, 1, "", one.selector, type=one.type))
                one.lives.append(one.client)
        for router in self.routers[:3]:
            for name in PATHS:
                if not self._here(router, self.publishers.get((router, name))):
                    self.publishers[router, name] = self.ask(router, AdvertiseType(1, name))

    def _here(self, router: int, client: SimClient | None) -> bool:
        broker = self.brokers.broker(router)
        return broker is not None and client is not None and broker.clients.get(client.number) is client

    def call(self, router: int, act: Action) -> None:
        self.brokers.driver.call(str(router), act)

    def there(self) -> list[tuple[int, str]]:
        """Connected publishers and what they publish."""
        here = [key for key, client in self.publishers.items() if self._here(key[0], client)]
        return [key for key in here if not self.brokers.frozen(key[0])]

    def ask(self, router: int, request: Any, client_id: str = "") -> SimClient:
        """A new client's request, until it is carried out: a rendezvous node may not be there yet."""
        for _ in range(ATTEMPTS):
            found: list[SimClient] = []

            def act(machine: SimBroker, now: float, found: list[SimClient] = found) -> list[Any]:
                found.append(machine.connect(now, client_id))
                return machine.request(now, found[0], request)

            self.call(router, act)
            self.until(WAIT_MS)
            if found and 1 in found[0].done:
                return found[0]
        raise AssertionError(f"types: {request} is not answered at router {router}")

    def publish(self) -> bytes | None:
        """An event by one of the publishers that are there."""
        there = self.there()
        if not there:
            return None
        (router, name), x = self.rng.choice(there), self.rng.randrange(6)
        id = MessageId(1, router, int(self.brokers.calendar.now), 40_000 + len(self.events) % 20_000)
        message = encode_message(Message(Destination(topic_of(PATHS[name])), {"x": x}, id=id, type=name))
        client = self.publishers[router, name]
        refused = len(client.failures)
        self.call(router, lambda machine, now: machine.publish(now, client, message))
        assert len(client.failures) == refused, f"types: an event is refused at router {router}: {client.failures[-1]}"
        self.events[message[ID]] = name, x
        return message[ID]

    def judge(self) -> int:
        """A calm time; returns how many deliveries were due."""
        ids = [id for id in (self.publish() for _ in range(6)) if id is not None]
        self.until(QUIET_MS)
        due = 0
        for one in self.listeners:
            assert one.client is not None
            got = {delivery.message[ID] for delivery in one.client.deliveries}
            wanted = {id for id in ids if one.wants(*self.events[id])}
            due += len(wanted)
            lacks, extra = wanted - got, got & set(ids) - wanted
            name = f"{one.type} {one.selector!r} at router {one.router}"
            assert not lacks | extra, f"delivered-set: {name} lacks {len(lacks)} and has {len(extra)} too much"
        self.safe()
        return due

    def safe(self) -> None:
        for one in self.listeners:
            for client in one.lives:
                for id, count in Counter(delivery.message[ID] for delivery in client.deliveries).items():
                    name = f"{one.type} {one.selector!r} at router {one.router}"
                    assert count == 1, f"once-only: {name} got {id.hex()} {count} times"
                    assert one.wants(*self.events[id]), f"delivered-set: {name} got {self.events[id]}"
