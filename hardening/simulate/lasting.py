"""Persistent events and durable subscriptions to types, where the scheme is Hermes: what was accepted is lost nowhere.

Subscriptions are made while all is well and left by their clients; events are published while things go wrong; when
all is mended, each subscription is read and compared with what its broker promised.
"""

from dataclasses import dataclass, field
from random import Random
from typing import Any

from hardening.simulate.typed import PATHS, SELECTORS, Listener, Typed
from tidings.kernel.codec import encode_message
from tidings.model.codec import ID
from tidings.model.destination import Destination, DestinationPattern
from tidings.model.event_type_topics import pattern_of, topic_of
from tidings.model.message import Message
from tidings.model.message_id import MessageId
from tidings.model.predicate import Predicate
from tidings.model.selector import Selector
from tidings.node.clients.subscription_plan import predicate_of
from tidings.node.requests import Subscribe
from tidings.sim.broker import SimBroker
from tidings.sim.client import SimClient

READ_MS = 1_000.0


@dataclass(frozen=True, slots=True)
class Event:
    id: bytes
    type: str
    x: int
    receipt: int
    client: SimClient

    @property
    def accepted(self) -> bool:
        return self.receipt in self.client.receipts


@dataclass(eq=False)
class Lasting(Listener):
    name: str = ""

    def request(self) -> Subscribe:
        return Subscribe(1, 1, "", self.selector, type=self.type, durable=self.name, credit=1_000_000)


@dataclass
class LastingEvents:
    typed: Typed
    rng: Random
    subscriptions: list[Lasting] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)

    def start(self) -> None:
        for router in self.typed.routers:
            if self.rng.random() < 0.4:
                name = f"lasting {router}"
                one = Lasting(router, self.rng.choice(list(PATHS)), self.rng.choice(SELECTORS), name=name)
                self.subscriptions.append(one)
                self._leave(router, self.typed.ask(router, one.request(), name))

    def interests(self) -> list[tuple[int, Predicate]]:
        """Those that other brokers know, by router: messages are kept for a broker that is away by them."""
        return [
            (one.router, predicate_of(DestinationPattern.parse(pattern_of(PATHS[one.type])), Selector(one.selector)))
            for one in self.subscriptions
        ]

    def publish(self) -> None:
        there = self.typed.there()
        if not there:
            return
        (router, name), x = self.rng.choice(there), self.rng.randrange(6)
        receipt = len(self.events) + 1
        id = MessageId(2, router, int(self.typed.brokers.calendar.now), receipt)
        event = Message(Destination(topic_of(PATHS[name])), {"x": x}, id=id, persistent=True, type=name)
        message = encode_message(event)
        client = self.typed.publishers[router, name]
        self.events.append(Event(message[ID], name, x, receipt, client))
        self.typed.events[message[ID]] = name, x
        self.typed.call(router, lambda machine, now: machine.publish(now, client, message, receipt))

    def judge(self) -> int:
        """Returns how many deliveries were due."""
        for one in self.subscriptions:
            self._read(one)
        self.typed.until(READ_MS)
        known = {event.id: event for event in self.events}
        due = 0
        for one in self.subscriptions:
            assert one.client is not None
            got = [delivery.message[ID] for delivery in one.client.deliveries]
            name = f"durable {one.type} {one.selector!r} at router {one.router}"
            assert len(got) == len(set(got)), f"once-only: {name} got {len(got) - len(set(got))} twice"
            extra = [id for id in got if id in known and not one.wants(known[id].type, known[id].x)]
            assert not extra, f"delivered-set: {name} got {extra[0].hex()}"
            wanted = {event.id for event in self.events if event.accepted and one.wants(event.type, event.x)}
            due += len(wanted)
            lost = wanted.difference(got)
            assert not lost, f"nothing-lost: {name} lacks {len(lost)} of {len(wanted)}, such as {min(lost).hex()}"
        return due

    def _leave(self, router: int, client: SimClient) -> None:
        self.typed.call(router, lambda machine, now: machine.disconnect(now, client))

    def _read(self, one: Lasting) -> None:
        def act(machine: SimBroker, now: float) -> list[Any]:
            one.client = machine.connect(now, one.name)
            return machine.request(now, one.client, one.request())

        self.typed.call(one.router, act)
