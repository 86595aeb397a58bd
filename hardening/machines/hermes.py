"""Hermes judged in the simulator: random types, advertisements, subscriptions of both kinds, brokers that crash.

Whenever nothing is on its way each subscription gets each event that matches it, published then, exactly once, and no
other. With `crashes`, rendezvous nodes and brokers on the way crash while events are published: persistent ones
reach every matching subscription of a broker that lives, once each, and all events do so again once the overlay has
been repaired and everything has been said again.

    python -m hardening.machines.hermes 17             # one seed; two numbers: all from the first to the second
"""

import sys
from collections import Counter
from dataclasses import dataclass, field
from itertools import count
from random import Random

from hardening.seeds import parser, run_seeds
from tidings.kernel.codec import decode_message, encode_message
from tidings.model.constraint import Constraint, Op
from tidings.model.destination import Destination
from tidings.model.event_type import AttributeType, EventType, TypeTree
from tidings.model.message import Message
from tidings.model.predicate import Predicate
from tidings.overlay.pan import PanOptions
from tidings.overlay.topology.space import plane
from tidings.routing.hermes import HermesOptions
from tidings.routing.hermes.messages import HermesHandOver, HermesSubscriptionId
from tidings.sim.hermes import HermesNetwork
from tidings.sim.pan import PanNetwork

WIDTH = 10  # values of x
OPTIONS = HermesOptions(refresh_ms=5_000, lifetime_ms=18_000, settle_ms=12_000)


@dataclass
class Made:
    router: int
    type: str
    filter: Predicate | None


@dataclass
class Event:
    type: str
    x: int
    due: set[HermesSubscriptionId]
    persistent: bool
    handed: Counter[HermesSubscriptionId] = field(default_factory=Counter)


class Run:
    def __init__(self, seed: int, *, crashes: bool = False) -> None:
        self.rng = rng = Random(seed)
        pan = PanNetwork(plane(200, rng).latency_ms, rng, options=PanOptions(leaves=4), timers=crashes)
        brokers = rng.randint(3, 30)
        for router in range(brokers):
            pan.add(router, rng.randrange(router) if router else None)
            pan.calendar.run(until=pan.calendar.now + 1000) if crashes else pan.calendar.run()
        self.network = HermesNetwork(pan, OPTIONS)
        self.network.on_hand = self._hand
        self.crashes, self.crashed = crashes, 0  # whether there are any, and how many there were
        self.types = TypeTree()
        self.advertised: list[tuple[int, str]] = []
        self.subscriptions: dict[HermesSubscriptionId, Made] = {}
        self.events: dict[bytes, Event] = {}
        self._tokens, self._fresh = count(1), count(brokers)

    # --- doing ----------------------------------------------------------------------------------------------------

    def quiet(self) -> None:
        calendar = self.network.calendar
        if self.crashes:
            calendar.run(until=calendar.now + 2_000)
        else:
            calendar.run()
        wrong = [done.error for done in self.network.done.values() if done.error is not None]
        assert wrong == [], wrong
        self.network.done.clear()

    def any_broker(self) -> int:
        return self.rng.choice(list(self.network.brokers))

    def add_types(self, number: int) -> None:
        for index in range(number):
            parent = self.rng.choice([None, *(one.name for one in self.types)])
            made = EventType(f"type{index}", parent, {"x": AttributeType.INT} if parent is None else {})
            router = self.any_broker()
            self.network.do(
                router, self.network.brokers[router].add_type(self.network.calendar.now, next(self._tokens), made)
            )
            self.quiet()
            self.types.add(made)

    def any_type(self) -> str:
        return self.rng.choice([one.name for one in self.types])

    def change(self) -> None:
        """Some client asks for something, or takes it back."""
        now, rng = self.network.calendar.now, self.rng
        what = rng.random()
        if what < 0.25 or not self.advertised:
            router, name = self.any_broker(), self.any_type()
            self.advertised.append((router, name))
            self.network.do(router, self.network.brokers[router].advertise(now, next(self._tokens), name))
        elif what < 0.65 or not self.subscriptions:
            made = Made(self.any_broker(), self.any_type(), self.any_filter())
            id = HermesSubscriptionId(made.router, next(self._tokens))
            self.subscriptions[id] = made
            broker = self.network.brokers[made.router]
            self.network.do(made.router, broker.subscribe(now, next(self._tokens), id, made.type, made.filter))
        elif what < 0.9:
            self.quiet()  # a client takes back only what was confirmed
            id = rng.choice(list(self.subscriptions))
            made = self.subscriptions.pop(id)
            self.network.do(made.router, self.network.brokers[made.router].unsubscribe(now, id))
        else:
            self.quiet()
            router, name = self.advertised.pop(rng.randrange(len(self.advertised)))
            self.network.do(router, self.network.brokers[router].unadvertise(now, name))

    def any_filter(self) -> Predicate | None:
        if self.rng.random() < 0.35:
            return None
        low, high = sorted(self.rng.sample(range(-1, WIDTH + 1), 2))
        return Predicate.of(Constraint("x", Op.GT, low), Constraint("x", Op.LT, high))

    def publish(self, persistent: bool = False) -> None:
        if not self.advertised:
            return
        router, name = self.rng.choice(self.advertised)
        x = self.rng.randrange(WIDTH)
        due = {
            id
            for id, made in self.subscriptions.items()
            if self.types.is_a(name, made.type) and (made.filter is None or made.filter.matches({"x": x}))
        }
        tag = f"{next(self._tokens)}".encode()
        self.events[tag] = Event(name, x, due, persistent)
        body = encode_message(Message(Destination.parse(name), {"x": x}, tag, persistent=persistent))
        broker = self.network.brokers[router]
        self.network.do(router, broker.publish(self.network.calendar.now, name, body, tag if persistent else b""))

    def join(self) -> None:
        router = next(self._fresh)
        self.network.pan.add(router, self.any_broker())
        self.network.add(router)
        self.quiet()

    def crash_one(self) -> None:
        """The rendezvous node of a type, or anyone; not one with publishers, whose clients would be cut off."""
        hosts = {router for router, _ in self.advertised}
        name = self.any_type()
        router = self.network.rendezvous(name) if self.rng.random() < 0.7 else self.any_broker()
        if router in hosts or len(self.network.brokers) <= 3:
            return
        self.network.crash(router)
        self.crashed += 1
        for id in [id for id, made in self.subscriptions.items() if made.router == router]:
            del self.subscriptions[id]

    def _hand(self, router: int, hand: HermesHandOver) -> None:
        self.events[decode_message(hand.message).body].handed.update(hand.subscriptions)

    # --- judging --------------------------------------------------------------------------------------------------

    def judge(self, *, only_persistent: bool = False) -> None:
        for tag, event in self.events.items():
            if only_persistent and not event.persistent:
                continue
            # A persistent event that is kept for a while may also reach a client that subscribes meanwhile.
            later = {id: 1 for id in event.handed if event.persistent and id.number > int(tag)}
            handed = {id: times for id, times in event.handed.items() if id in self.subscriptions}
            wanted = {id: 1 for id in event.due if id in self.subscriptions} | later
            assert handed == {id: 1 for id in wanted if id in self.subscriptions}, (
                f"event {tag!r} {event.type} x={event.x}: {handed} instead of {wanted}"
            )
        for event in self.events.values():
            event.due &= event.handed.keys()

    def run(self) -> None:
        self.add_types(self.rng.randint(1, 6))
        for _ in range(self.rng.randint(3, 8)):
            for _ in range(self.rng.randint(1, 12)):
                self.change()
                if self.rng.random() < 0.5:
                    self.quiet()
            self.quiet()
            for _ in range(6):
                self.publish(persistent=self.rng.random() < 0.3)
            self.quiet()
            self.judge()
            if self.rng.random() < 0.3:
                self.join()
                self.quiet()

    def run_with_crashes(self) -> None:
        self.add_types(self.rng.randint(1, 4))
        for _ in range(self.rng.randint(10, 25)):
            self.change()
        self.quiet()
        self.quiet()
        for _ in range(2):
            for _ in range(self.rng.randint(1, 2)):
                self.publish(persistent=True)
                self.crash_one()
                self.publish(persistent=True)
                self.network.calendar.run(until=self.network.calendar.now + self.rng.choice((10, 500, 2000)))
                self.publish(persistent=True)
            self.network.calendar.run(until=self.network.calendar.now + 2_000)
            self.publish(persistent=True)
            self.network.calendar.run(until=self.network.calendar.now + 60_000)
            self.judge(only_persistent=True)
            for _ in range(6):
                self.publish()
            self.network.calendar.run(until=self.network.calendar.now + 2_000)
            self.judge()


def run(seed: int, *, crashes: bool = False) -> Run:
    one = Run(seed, crashes=crashes)
    try:
        one.run_with_crashes() if crashes else one.run()
    except Exception as error:
        error.add_note(f"seed {seed}; repeat with: python -m hardening.machines.hermes {seed}")
        raise
    return one


def figures(seed: int) -> dict[str, int]:
    plain, crashed = run(seed), run(seed, crashes=True)
    return {
        "events": len(plain.events) + len(crashed.events),
        "handed": sum(event.handed.total() for one in (plain, crashed) for event in one.events.values()),
        "crashes": crashed.crashed,
    }


def main(arguments: list[str]) -> int:
    asked = parser("machines.hermes", "Hermes under random schedules, without and with crashes.").parse_args(arguments)
    return run_seeds(asked, "hermes", figures)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
