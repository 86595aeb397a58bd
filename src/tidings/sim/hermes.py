"""A network of Hermes brokers on Pan in virtual time: the machines, no sockets.

Each broker can send to each, at the latency between them, and messages between two keep their order. Requests to
rendezvous nodes travel hop by hop like the rest. When a broker crashes the others notice within `notice_ms`, each at a
time of its own, as they would by a broken connection or by heartbeats.
"""

from collections import Counter
from collections.abc import Callable, Iterable

from tidings.overlay.effects import Router, SetTimer
from tidings.overlay.pan.messages import Changed, PanEffect
from tidings.routing.hermes import Hermes, HermesOptions
from tidings.routing.hermes.messages import (
    Done,
    Hand,
    HermesEffect,
    HermesMessage,
    Kind,
    Publication,
    Request,
    Safe,
    Send,
    Tell,
    TypeAnswer,
    TypeRequest,
)
from tidings.sim.pan import PanNetwork

SENT_AS = {Kind.ADVERTISED: "advertisements", Kind.TYPE: "subscriptions", Kind.FILTER: "subscriptions"}


class HermesNetwork:
    def __init__(self, pan: PanNetwork, options: HermesOptions | None = None, notice_ms: float = 3000) -> None:
        self.pan, self.calendar, self.options, self.notice_ms = pan, pan.calendar, options, notice_ms
        self.brokers: dict[Router, Hermes] = {}
        self.sent: Counter[str] = Counter()  # messages between brokers: advertisements, subscriptions, publications
        self.on_hand: Callable[[Router, Hand], None] | None = None
        self.on_publication: Callable[[Router, Router, Publication], None] | None = None
        self.done: dict[int, Done] = {}
        self.safe: set[bytes] = set()
        self._last_at: dict[tuple[Router, Router], float] = {}
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

        broker = self.brokers[router] = Hermes(router, space.hash, next_hop, self.options, second)
        self.do(router, broker.start(self.calendar.now))
        return broker

    def rendezvous(self, name: str) -> Router:
        return self.pan.closest(self.pan.space.hash(name))

    def crash(self, router: Router) -> None:
        """All at once; the others notice it one by one."""
        me = self.pan.nodes[router].me
        self.pan.crash(router)
        del self.brokers[router]
        for other in list(self.brokers):
            self.calendar.after(self.pan.rng.uniform(1, self.notice_ms), self._notice, other, router, me.id)

    def _notice(self, router: Router, gone: Router, id: int) -> None:
        if router in self.brokers:
            node = self.pan.nodes[router]
            contact = next((one for one in node.neighbours() if one.id == id), None)
            if contact is not None:
                self.pan.do(router, node.failed(self.calendar.now, contact))
            self.do(router, self.brokers[router].link_down(self.calendar.now, gone))

    def _pan_effect(self, router: Router, effect: PanEffect) -> None:
        if isinstance(effect, Changed) and router in self.brokers:
            self.do(router, self.brokers[router].reroute(self.calendar.now))

    # --- effects --------------------------------------------------------------------------------------------------

    def do(self, router: Router, effects: Iterable[HermesEffect]) -> None:
        for effect in effects:
            match effect:
                case Send(neighbour=neighbour, message=message):
                    self._send(router, neighbour, message)  # type: ignore[arg-type]
                case Hand():
                    if self.on_hand is not None:
                        self.on_hand(router, effect)
                    if effect.tag:
                        self.do(router, self.brokers[router].handed(self.calendar.now, effect.type, effect.tag))
                case Request(token=token, key=key, request=request):
                    self._request(router, router, token, key, request)
                case SetTimer(at=at):
                    if self.pan.timers:
                        self.calendar.at(at, self._tick, router)
                case Done(token=token):
                    self.done[token] = effect
                case Safe(tag=tag):
                    self.safe.add(tag)

    def _tick(self, router: Router) -> None:
        if router in self.brokers:
            self.do(router, self.brokers[router].tick(self.calendar.now))

    def _send(self, source: Router, to: Router, message: HermesMessage) -> None:
        if isinstance(message, Tell):
            self.sent[SENT_AS.get(message.kind, "flow")] += 1
        elif isinstance(message, Publication):
            self.sent["publications"] += 1
            if self.on_publication is not None:
                self.on_publication(source, to, message)
        else:
            self.sent["others"] += 1
        self.calendar.after(self.pan.latency_ms(source, to), self._arrive, source, to, message)

    def _arrive(self, source: Router, to: Router, message: HermesMessage) -> None:
        if to in self.brokers and source in self.brokers:  # who has crashed says nothing more
            self.do(to, self.brokers[to].hear(self.calendar.now, source, message))

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
