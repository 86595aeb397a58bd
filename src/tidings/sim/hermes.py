"""A network of Hermes brokers on Pan in virtual time: the machines, no sockets.

Each broker can send to each, at the latency between them, and messages between two keep their order. Requests to
rendezvous nodes travel hop by hop like the rest. When a broker crashes the others notice within `NOTICE_MS`, each at a
time of its own, as they would by a broken connection or by heartbeats.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import TypeAlias, assert_never

from tidings.overlay.effects import Router
from tidings.overlay.pan.messages import Changed, Joined, Missed, PanAnswered, PanArrived, Unanswered
from tidings.overlay.pan.messages import PanTell as PanTell
from tidings.routing.hermes import Hermes, HermesOptions
from tidings.routing.hermes.messages import (
    EchoEvent,
    Estate,
    HermesEffect,
    HermesHandOver,
    HermesMessage,
    HermesPublication,
    HermesSafe,
    InterestKind,
    Request,
    RequestDone,
    Send,
    Settled,
    Tell,
    TypeAnswer,
    TypeRequest,
    Untell,
)
from tidings.sim.harness import Adapter, Harness
from tidings.sim.pan import PanNetwork, PanOutcome

NOTICE_MS = 3000.0  # at most, until neighbours notice that a broker has gone
SENT_AS = {
    InterestKind.ADVERTISED: "advertisements",
    InterestKind.TYPE: "subscriptions",
    InterestKind.FILTER: "subscriptions",
}
HermesOutcome: TypeAlias = (
    Request | HermesHandOver | RequestDone | HermesSafe
)  # `HermesEffect` less what is carried out


class HermesNetwork(Adapter[Hermes, HermesOutcome]):
    def __init__(self, pan: PanNetwork, options: HermesOptions | None = None) -> None:
        self.pan, self.calendar, self.options = pan, pan.calendar, options
        self.harness = Harness(pan.harness.network, self, timers=pan.timers)
        self.brokers = self.harness.machines  # those alive
        self.do = self.harness.do
        self.sent: Counter[str] = Counter()  # between brokers: advertisements, subscriptions, publications
        self.on_hand: Callable[[Router, HermesHandOver], None] | None = None
        self.on_publication: Callable[[Router, Router, HermesPublication], None] | None = None
        self.done: dict[int, RequestDone] = {}
        self.safe: set[bytes] = set()
        pan.on_effect = self._pan_effect
        for router in pan.nodes:
            self.add(router)

    def add(self, router: Router) -> Hermes:
        """Hermes on a node that Pan has."""
        node, space = self.pan.nodes[router], self.pan.space

        def next_hop(key: int) -> Router | None:
            to = node.next_hop(key)
            return None if to is None else to.router

        def second(key: int) -> Router | None:
            to = node.second(key)
            return None if to is None else to.router

        broker = Hermes(router, space.hash, next_hop, self.options, second)
        self.harness.run(router, broker)
        return broker

    def rendezvous(self, name: str) -> Router:
        return self.pan.closest(self.pan.space.hash(name))

    def crash(self, router: Router) -> None:
        """All at once; the others notice it one by one."""
        me = self.pan.nodes[router].me
        self.pan.crash(router)
        self.harness.crash(str(router))
        for other in list(self.brokers):
            self.calendar.after(self.pan.rng.uniform(1, NOTICE_MS), self._notice, other, router, me.id)

    def _notice(self, router: Router, gone: Router, id: int) -> None:
        if router in self.brokers:
            node = self.pan.nodes[router]
            contact = next((one for one in node.neighbours() if one.id == id), None)
            if contact is not None:
                self.pan.do(router, node.failed(self.calendar.now, contact))
            self.do(router, self.brokers[router].link_down(self.calendar.now, gone))

    def _pan_effect(self, router: Router, effect: PanOutcome) -> None:
        match effect:
            case Changed():
                if router in self.brokers:
                    self.do(router, self.brokers[router].reroute(self.calendar.now))
            case PanArrived() | PanAnswered() | Unanswered() | Joined() | Missed():
                pass  # requests do not go by Pan's messages here, and Hermes asks Pan for ways
            case _:
                assert_never(effect)

    # --- the machine in the harness -------------------------------------------------------------------------------

    def start(self, now: float, machine: Hermes) -> Iterable[HermesEffect]:
        return machine.start(now)

    def tick(self, now: float, machine: Hermes, timer: str) -> Iterable[HermesEffect]:
        return machine.tick(now)

    def receive(self, now: float, machine: Hermes, source: Router, parcel: HermesMessage) -> Iterable[HermesEffect]:
        return machine.hear(now, source, parcel) if source in self.brokers else ()  # a crashed one says nothing more

    def pack(self, source: Router, effect: Send | PanTell) -> HermesMessage:
        assert isinstance(effect, Send)
        message: HermesMessage = effect.message  # type: ignore[assignment]
        match message:
            case Tell(kind=kind):
                self.sent[SENT_AS.get(kind, "flow")] += 1
            case HermesPublication():
                self.sent["publications"] += 1
                if self.on_publication is not None:
                    self.on_publication(source, effect.neighbour, message)
            case Untell() | Settled() | EchoEvent() | Estate():
                self.sent["others"] += 1
            case _:
                assert_never(message)
        return message

    def handle(self, machine: Hermes, effect: HermesOutcome) -> None:
        match effect:
            case HermesHandOver(type=type, tag=tag):
                if self.on_hand is not None:
                    self.on_hand(machine.router, effect)
                if tag:
                    self.do(machine.router, machine.handed(self.calendar.now, type, tag))
            case Request(token=token, key=key, request=request):
                self._request(machine.router, machine.router, token, key, request)
            case RequestDone(token=token):
                self.done[token] = effect
            case HermesSafe(tag=tag):
                self.safe.add(tag)
            case _:
                assert_never(effect)

    # --- requests to rendezvous nodes -----------------------------------------------------------------------------

    def _request(self, origin: Router, at: Router, token: int, key: int, request: TypeRequest) -> None:
        if at not in self.brokers:
            self._answer(origin, token, None)
            return
        to = self.pan.nodes[at].next_hop(key)
        if to is None:
            answer, effects = self.brokers[at].asked(self.calendar.now, request)
            self.do(at, effects)
            self.calendar.after(self.pan.latency_ms(at, origin), self._answer, origin, token, answer)
        else:
            self.sent["types"] += 1
            wait = self.pan.latency_ms(at, to.router)
            self.calendar.after(wait, self._request, origin, to.router, token, key, request)

    def _answer(self, origin: Router, token: int, answer: TypeAnswer | None) -> None:
        if origin in self.brokers:
            self.do(origin, self.brokers[origin].answered(self.calendar.now, token, answer))
