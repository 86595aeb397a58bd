"""Hermes at one broker: types, advertisements, subscriptions and events of its clients and its neighbours.

    add_type, remove_type, advertise, unadvertise, subscribe, unsubscribe, publish     what clients ask for
    hear(now, neighbour, message)      link_down, link_up, reroute       what the overlay brings
    handed(now, type, tag)                                               a persistent event is safe with clients here
    asked(now, request)                answered(now, token, answer)      requests to rendezvous nodes
    tick(now)                                                            when the timer "scheme" rings

Figure 2 of the paper (Pietzuch and Bacon, Peer-to-peer overlay broker networks in an event-based middleware, 2003) with
these differences. A broker tells a neighbour nothing that it heard only from there, and sends no event back where it
came from. Interests are passed on as filters with a lifetime, not as subscriptions with an identity, so equal ones of
many clients are one entry. Events go to the rendezvous node only while somebody wants all events of the type.
"""

from collections import Counter, deque
from collections.abc import Callable
from functools import partial
from typing import assert_never

from tidings.errors import UsageError
from tidings.model.event_type import EventType, EventTypeError, TypeTree
from tidings.model.predicate import Predicate
from tidings.overlay.effects import Router, SetTimer
from tidings.routing.hermes.event_custody import Custodian
from tidings.routing.hermes.messages import (
    EchoEvent,
    Estate,
    HermesEffect,
    HermesHandOver,
    HermesMessage,
    HermesPublication,
    HermesSafe,
    HermesSubscriptionId,
    InterestKind,
    RequestDone,
    Send,
    Settled,
    Tell,
    TypeAnswer,
    TypeRequest,
    Untell,
    Verb,
)
from tidings.routing.hermes.options import HermesOptions
from tidings.routing.hermes.pending_lookups import UNSURE, PendingLookups
from tidings.routing.hermes.registry import Registry, requests_of
from tidings.routing.hermes.rendezvous_replica import RendezvousReplica
from tidings.routing.hermes.tables import ALWAYS, Hop
from tidings.routing.hermes.trees import NextHop, Tree, Trees
from tidings.routing.hermes.type_lookup import TypeLookup
from tidings.routing.scheme import TIMER

Ways = dict[Hop, tuple[bool, bool]]  # to whom an event goes, and for which subscriptions there: by type, by filter


class Hermes:
    def __init__(
        self,
        router: Router,
        key_of: Callable[[str], int],
        next_hop: NextHop,
        options: HermesOptions | None = None,
        second: NextHop = lambda key: None,
    ) -> None:
        """`second`: who would be the closest to a key if this broker, which is, were lost."""
        self.router, self.options = router, options or HermesOptions()
        self.trees = Trees(router, key_of, next_hop, self.options)
        self.registry = Registry(self.options)
        self._key_of, self._next_hop, self._second = key_of, next_hop, second
        self._estates = RendezvousReplica(self.options)
        self._custodian = Custodian(self.options.handed_max)
        self._advertised: Counter[str] = Counter()
        self._subscriptions: dict[HermesSubscriptionId, tuple[str, Predicate | None]] = {}
        self._local: dict[tuple[str, InterestKind], dict[Predicate, dict[HermesSubscriptionId, None]]] = {}
        self._questions = PendingLookups(key_of, self.options)
        self._lookup = TypeLookup(router, self.registry, self._questions)
        self._echoes: dict[int, tuple[Callable[[], None], float]] = {}
        self._tokens = 0
        self._out: list[HermesEffect] = []
        self._inner: deque[tuple[float, Callable[[float], None]]] = deque()  # of trees of this broker to each other
        self._parents_told: dict[str, tuple[tuple[EventType, ...], float]] = {}  # of types: what, and when
        self._refresh_at = self._unsettled_until = 0.0
        self._young_until = 0.0  # so long types may exist that this broker, as their rendezvous node, has not heard of

    # --- clients --------------------------------------------------------------------------------------------------

    def start(self, now: float) -> list[HermesEffect]:
        self._refresh_at = now + self.options.refresh_ms
        self._unsettled_until = now + self.options.settle_ms
        self._young_until = now + self.options.refresh_ms
        return [SetTimer(TIMER, now + self.options.refresh_ms / 4)]

    def entered(self, now: float) -> list[HermesEffect]:
        """This broker is in the network now: tell it what it knows from an earlier life."""
        self._young_until = now + self.options.refresh_ms
        self._refresh_at = now
        return self.tick(now)

    def add_type(self, now: float, token: int, event_type: EventType) -> list[HermesEffect]:
        """Make a type known in the network; its parent must be known."""

        def with_parent(now: float, answer: TypeAnswer) -> None:
            if answer.code:
                reason = f"the parent {event_type.parent!r} of event type {event_type.name!r} is unknown; add it first"
                unknown = answer.code == "E_TYPE_UNKNOWN"
                self._finish(token, TypeAnswer((), "E_TYPE_PARENT", reason) if unknown else answer)
                return
            chain = (*answer.chain, event_type)
            try:
                TypeTree(chain)
            except EventTypeError as error:
                self._finish(token, TypeAnswer((), error.code, error.reason))
                return
            self._questions.ask(TypeRequest(Verb.ADD, event_type.name, chain), lambda now, answer: added(chain, answer))

        def added(chain: tuple[EventType, ...], answer: TypeAnswer) -> None:
            if not answer.code:
                self.registry.own(answer.chain or chain)
            self._finish(token, answer)

        if event_type.parent is None:
            with_parent(now, TypeAnswer())
        else:
            self._lookup.with_type(now, event_type.parent, with_parent)
        return self._done()

    def remove_type(self, now: float, token: int, name: str) -> list[HermesEffect]:
        def removed(now: float, answer: TypeAnswer) -> None:
            if not answer.code:
                self.registry.disown(name)
            self._finish(token, answer)

        self._questions.ask(TypeRequest(Verb.REMOVE, name), removed)
        return self._done()

    def get_type(self, now: float, token: int, name: str) -> list[HermesEffect]:
        """Done when the type is known here, in `registry.types`."""
        self._lookup.with_type(now, name, lambda now, answer: self._finish(token, answer))
        return self._done()

    def advertise(self, now: float, token: int, name: str) -> list[HermesEffect]:
        def known(now: float, answer: TypeAnswer) -> None:
            if not answer.code:
                self._advertised[name] += 1
                self.registry.use(name)
                self.trees.add(now, name, InterestKind.ADVERTISED, None, ALWAYS)
                if self._advertised[name] == 1:  # done when it is known here where its events are wanted
                    self._echo(now, name, lambda: self._finish(token, answer))
                    return
            self._finish(token, answer)

        self._lookup.to_use(now, name, known)
        return self._done()

    def unadvertise(self, now: float, name: str) -> list[HermesEffect]:
        if not self._advertised[name]:
            raise UsageError("E_HERMES_UNADVERTISED", f"no client here advertises event type {name!r}")
        self._advertised[name] -= 1
        if not self._advertised[name]:
            self.trees.remove(now, name, InterestKind.ADVERTISED, None, ALWAYS)
        self._lookup.unuse(name)
        return self._done()

    def subscribe(
        self, now: float, token: int, id: HermesSubscriptionId, name: str, filter: Predicate | None = None
    ) -> list[HermesEffect]:
        """All events of a type and its subtypes; with a filter, those that match."""
        if id in self._subscriptions:
            raise UsageError("E_HERMES_ID", f"subscription {id} exists already")

        def known(now: float, answer: TypeAnswer) -> None:
            error = answer if answer.code or filter is None else self.registry.check_filter(name, filter)
            if not error.code:
                self._subscriptions[id] = (name, filter)
                self.registry.use(name)
                kind, wanted = (InterestKind.TYPE, ALWAYS) if filter is None else (InterestKind.FILTER, filter)
                self._local.setdefault((name, kind), {}).setdefault(wanted, {})[id] = None
                self.trees.add(now, name, kind, None, wanted)
            elif not answer.code and not self.registry.used(name):
                self._lookup.unused(name)
            self._finish(token, error)

        self._lookup.to_use(now, name, known)
        return self._done()

    def unsubscribe(self, now: float, id: HermesSubscriptionId) -> list[HermesEffect]:
        if id not in self._subscriptions:
            raise UsageError("E_HERMES_ID", f"subscription {id} is unknown: no client here made it")
        name, filter = self._subscriptions.pop(id)
        kind, wanted = (InterestKind.TYPE, ALWAYS) if filter is None else (InterestKind.FILTER, filter)
        same = self._local[name, kind]
        del same[wanted][id]
        if not same[wanted]:
            del same[wanted]
            self.trees.remove(now, name, kind, None, wanted)
        self._lookup.unuse(name)
        return self._done()

    def publish(self, now: float, name: str, message: bytes, tag: bytes = b"") -> list[HermesEffect]:
        """An event of an advertised type, checked by the caller; with a tag it is persistent and ends in `Safe`."""
        if not self._advertised[name]:
            raise UsageError("E_HERMES_UNADVERTISED", f"no client here advertises event type {name!r}")
        self._publication(now, None, HermesPublication(name, True, True, False, tag, message))
        return self._done()

    # --- the overlay ----------------------------------------------------------------------------------------------

    def hear(self, now: float, neighbour: Router, message: HermesMessage) -> list[HermesEffect]:
        match message:
            case HermesPublication():
                self._publication(now, neighbour, message)
            case Tell(type=name, kind=kind, filter=filter, lifetime_ms=lifetime_ms):
                until = now + min(lifetime_ms, self.options.lifetime_ms)
                self.trees.add(now, name, kind, neighbour, filter, until)
            case Untell(type=name, kind=kind, filter=filter, moved=moved):
                if moved:
                    self._unsettle(now)
                self.trees.moving = moved
                self.trees.remove(now, name, kind, neighbour, filter)
                self.trees.moving = False
            case Settled(type=name, tag=tag):
                self._custodian.settled(name, tag, neighbour)
                self._review(now, tag)
            case EchoEvent(type=name, number=number, back=False):
                self._echo(now, name, lambda: self.trees.out.append(Send(neighbour, EchoEvent(name, number, True))))
            case EchoEvent(number=number):
                if number in self._echoes:
                    self._echoes.pop(number)[0]()
            case Estate():
                self._estates.keep(now, message)
            case _:
                assert_never(message)
        return self._done()

    def handed(self, now: float, name: str, tag: bytes) -> list[HermesEffect]:
        """A persistent event that was handed over here is safe with those who are to have it."""
        self._custodian.settled(name, tag, None)
        self._review(now, tag)
        return self._done()

    def refused(self, name: str, tag: bytes) -> list[HermesEffect]:
        """It could not be stored, for now."""
        self._custodian.refused(name, tag)
        return self._done()

    def link_up(self, now: float, neighbour: Router) -> list[HermesEffect]:
        """There is a link to this neighbour now. What was said to it before there was one was lost."""
        self.trees.link_made(now, neighbour)
        self._custodian.lost(neighbour)
        self._review(now)
        return self._done()

    def link_down(self, now: float, neighbour: Router) -> list[HermesEffect]:
        """The neighbour is gone, and what was on its way there."""
        self._unsettle(now)
        self._young_until = now + self.options.refresh_ms
        self._parents_told.clear()
        self.trees.link_lost(now, neighbour)
        self._custodian.lost(neighbour)
        self._review(now)
        return self._done()

    def reroute(self, now: float) -> list[HermesEffect]:
        """Next hops may have changed."""
        self._parents_told.clear()
        if self.trees.reroute(now):
            self._unsettle(now)
            self._review(now)
        for request in self.registry.hand_over(self._is_mine):
            self._hand_over(now, request)
        self._take_over(now)
        for name in self.registry.held():
            self._entrust(name)
        return self._done()

    def tick(self, now: float) -> list[HermesEffect]:
        self.trees.expire(now)
        self._questions.tick()
        for number in [number for number, (_, until) in self._echoes.items() if until <= now]:
            self._echoes.pop(number)[0]()
        if self._refresh_at <= now:
            self._refresh_at = now + self.options.refresh_ms
            self.trees.refresh(now)
            self._lookup.keep()
            for name in self.registry.held():
                self._entrust(name, again=True)
        self.registry.expire(now)
        known = self.options.refresh_ms / 2
        self._parents_told = {name: one for name, one in self._parents_told.items() if now < one[1] + known}
        self._review(now)
        return [*self._done(), SetTimer(TIMER, now + self.options.refresh_ms / 4)]

    def _echo(self, now: float, name: str, then: Callable[[], None]) -> None:
        """Go on when all that is on its way from the rendezvous node is here; or after a while, if the way breaks."""
        tree = self.trees.tree(name, now)
        if tree.up is None:
            then()
            return
        self._tokens += 1
        self._echoes[self._tokens] = (then, now + self.options.refresh_ms / 2)
        self.trees.out.append(Send(tree.up, EchoEvent(name, self._tokens, False)))

    def _unsettle(self, now: float) -> None:
        self._unsettled_until = max(self._unsettled_until, now + self.options.settle_ms)

    # --- types ----------------------------------------------------------------------------------------------------

    def asked(self, now: float, request: TypeRequest) -> tuple[TypeAnswer, list[HermesEffect]]:
        """This broker is the rendezvous node of what the request names."""
        answer = self.registry.asked(now, request)
        if answer.code == "E_TYPE_UNKNOWN" and request.verb in (Verb.GET, Verb.USE) and now < self._young_until:
            answer = TypeAnswer((), UNSURE, "who knows it may not have said so yet")
        if not answer.code:
            match request.verb:
                case Verb.ADD | Verb.KEEP:
                    self._tell_parent(now, answer.chain, again=request.verb is Verb.ADD)
                    for chain in self.registry.outdated(request.name):
                        keep = TypeRequest(Verb.KEEP, chain[-1].name, chain)
                        self._questions.ask(keep, lambda now, answer: None)
                case Verb.REMOVE:
                    parent = answer.chain[-1].parent
                    if parent is not None:
                        left = TypeRequest(Verb.DISINHERIT, parent, answer.chain)
                        self._questions.ask(left, lambda now, answer: None)
                case Verb.HEIR:
                    self.trees.heir(now, request.name, request.chain[-1].name)
                    self._tell_parent(now, request.chain[:-1])  # even if all that asked for the type itself are gone
                case Verb.DISINHERIT:
                    self.trees.disinherit(now, request.name, request.chain[-1].name)
                case Verb.GET | Verb.USE | Verb.UNUSE:
                    pass
            self._entrust(request.name)
        return answer, self._done()

    def answered(self, now: float, token: int, answer: TypeAnswer | None) -> list[HermesEffect]:
        """The answer to a request; None: there was none."""
        self._questions.answered(now, token, answer)
        return self._done()

    def _hand_over(self, now: float, request: TypeRequest) -> None:
        def handed_over(now: float, answer: TypeAnswer) -> None:
            if answer.code == "E_TYPE_UNREACHABLE":
                self.registry.asked(now, request)  # keep it for the next change of the overlay

        self._questions.ask(request, handed_over)

    def _tell_parent(self, now: float, chain: tuple[EventType, ...], *, again: bool = False) -> None:
        """The rendezvous node of its parent must know of a type as long as there is one, or a subtype of it. Once an
        interval is enough: all its subtypes, and all who use them, cause this."""
        if chain and chain[-1].parent is not None:
            told, at = self._parents_told.get(chain[-1].name, ((), 0.0))
            if told == chain and now < at + self.options.refresh_ms / 2 and not again:
                return
            self._parents_told[chain[-1].name] = (chain, now)
            self._questions.ask(TypeRequest(Verb.HEIR, chain[-1].parent, chain), lambda now, answer: None)

    def _is_mine(self, name: str) -> bool:
        return self._next_hop(self._key_of(name)) is None

    def _entrust(self, name: str, *, again: bool = False) -> None:
        """Tell the broker that would take this one's place what it would have to know."""
        to, estate = self._second(self._key_of(name)), self.registry.estate(name)
        if to is not None and (self._estates.news(to, estate) or again):
            self._out.append(Send(to, estate))

    def _take_over(self, now: float) -> None:
        """Be the rendezvous node of types whose former one is lost."""
        for estate in self._estates.take(now, self._is_mine):
            for request in requests_of(estate):
                answer = self.registry.asked(now, request)
                if request.verb is Verb.HEIR and not answer.code:
                    self.trees.heir(now, request.name, request.chain[-1].name)

    def _finish(self, token: int, answer: TypeAnswer) -> None:
        self._out.append(RequestDone(token, EventTypeError(answer.code, answer.reason) if answer.code else None))

    # --- events ---------------------------------------------------------------------------------------------------

    def _ways(self, tree: Tree, source: Hop, event: HermesPublication) -> Ways:
        """Lines 16 to 28 of Figure 2: to whom, and with which flags; never back to where it came from."""
        typed: set[Hop] = set()
        if event.by_type:
            typed = tree.flows[InterestKind.TYPE].hops()
            called_for = bool(tree.flows[InterestKind.FLOW] and tree.flows[InterestKind.ADVERTISED])
            if tree.up is not None and (called_for or event.rising):
                typed.add(tree.up)
        flow = tree.flows[InterestKind.FILTER]
        filtered = flow.wanting(event.message) if event.by_filter and flow else set()
        ways = {hop: (hop in typed, hop in filtered) for hop in typed | filtered}
        if source is not None:
            ways.pop(source, None)
        return ways

    def _publication(self, now: float, source: Hop, event: HermesPublication) -> None:
        if event.tag:
            if event.rising and source == self.trees.tree(event.type, now).up:
                self._unsettle(now)  # both think the other nearer to the rendezvous node: one will soon know better
            for relieved in self._custodian.take(now, source, event):
                self._answer(now, event, relieved)
            self._review(now, event.tag)
            return
        tree = self.trees.tree(event.type, now)
        ways = self._ways(tree, source, event)
        for hop, (by_type, by_filter) in ways.items():
            rising = hop is not None and hop == tree.up
            self._pass_on(now, hop, HermesPublication(event.type, by_type, by_filter, rising, b"", event.message))

    def _pass_on(self, now: float, hop: Hop, event: HermesPublication) -> None:
        if hop is None:
            self._hand(event)
        elif isinstance(hop, str):  # of a subtype: into the tree of the type that this broker is asked for
            inner = HermesPublication(hop, event.by_type, event.by_filter, False, event.tag, event.message)
            self._inner.append((now, partial(self._publication, source=event.type, event=inner)))
        else:
            self._out.append(Send(hop, event))

    def _hand(self, event: HermesPublication) -> None:
        found: list[HermesSubscriptionId] = []
        if event.by_type:
            found += self._local.get((event.type, InterestKind.TYPE), {}).get(ALWAYS, ())
        if event.by_filter:
            local = self._local.get((event.type, InterestKind.FILTER), {})
            for filter in self.trees.tree(event.type).flows[InterestKind.FILTER].matching(event.message):
                found += local.get(filter, ())
        if event.tag:
            found = self._custodian.not_handed(event.tag, found)
        if found:
            self._out.append(HermesHandOver(tuple(sorted(found)), event.message, event.tag, event.type))
        elif event.tag:
            self._custodian.settled(event.type, event.tag, None)

    def _review(self, now: float, tag: bytes | None = None) -> None:
        """Pass on what persistent events are still to be passed on to, and let go of those that all have."""
        for item in self._custodian.items(tag):
            if not self._custodian.holds(item):
                continue  # settled meanwhile, by what became of another
            tree, event = self.trees.tree(item.event.type, now), item.event
            for hop, (by_type, by_filter) in self._ways(tree, None, event).items():
                if item.sends(hop, (by_type, by_filter)):
                    rising = hop is not None and hop == tree.up
                    copy = HermesPublication(event.type, by_type, by_filter, rising, event.tag, event.message)
                    self._pass_on(now, hop, copy)
            settled_at = max(self._unsettled_until, tree.since + self.options.settle_ms)
            if self._custodian.holds(item) and not item.waiting and now >= settled_at:
                if item.once_more(now, self._unsettled_until):
                    self._review(now, event.tag)
                else:
                    self._custodian.drop(event)
                    if not item.orphan:
                        self._answer(now, event, item.source)

    def _answer(self, now: float, event: HermesPublication, source: Hop) -> None:
        """Tell whoever brought the event here to wait for this broker no longer."""
        if source is None:
            self._out.append(HermesSafe(event.tag))
        elif isinstance(source, int):
            self._out.append(Send(source, Settled(event.type, event.tag)))
        else:
            self._custodian.settled(source, event.tag, event.type)
            self._inner.append((now, partial(self._review, tag=event.tag)))

    def _done(self) -> list[HermesEffect]:
        while self._inner:  # one after the other: types may have many ancestors
            now, step = self._inner.popleft()
            step(now)
        out, self._out = [*self._out, *self._questions.take(), *self.trees.take()], []
        return out

    @property
    def waiting(self) -> int:
        """Requests that are not answered yet."""
        return len(self._questions)

    # --- sizes ----------------------------------------------------------------------------------------------------

    def table_sizes(self) -> tuple[int, int]:
        """Entries of advRT and subRT after covering."""
        trees = self.trees.trees.values()
        advertised = sum(tree.flows[InterestKind.ADVERTISED].roots() for tree in trees)
        return advertised, sum(
            tree.flows[kind].roots() for tree in trees for kind in (InterestKind.TYPE, InterestKind.FILTER)
        )
