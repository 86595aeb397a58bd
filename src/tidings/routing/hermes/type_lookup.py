"""The form of a type: looked up for the clients of a broker, and repeated by the broker at intervals.

A type may be removed, and added again in another form, wherever nobody uses it. So what a broker has looked up, or what
was added there, counts only as long as its rendezvous node says so, which is asked each time; unless clients here use
the type, because then it cannot be removed. What is used here is said again with every refresh (`keep`), and a broker
that was away for so long that the type has another form now, learns it then.
"""

from collections.abc import Callable
from typing import TypeAlias

from tidings.overlay.effects import Router
from tidings.routing.hermes.messages import TypeAnswer, TypeRequest, Verb
from tidings.routing.hermes.pending_lookups import PendingLookups
from tidings.routing.hermes.registry import Chain, Registry

UNKNOWN, REDEFINED, UNREACHABLE = "E_TYPE_UNKNOWN", "E_TYPE_REDEFINED", "E_TYPE_UNREACHABLE"
Then: TypeAlias = Callable[[float, TypeAnswer], None]


class TypeLookup:
    def __init__(self, router: Router, registry: Registry, questions: PendingLookups) -> None:
        self._router, self._registry, self._questions = router, registry, questions

    def with_type(self, now: float, name: str, then: Then) -> None:
        """Go on with the type as it is now; as it was when last heard of, if nobody answers."""
        known = self._registry.chain(name)

        def found(now: float, answer: TypeAnswer) -> None:
            if answer.code == UNKNOWN:
                self._registry.forget(name, known)
            then(now, TypeAnswer(known) if answer.code == UNREACHABLE and known else answer)

        def kept(now: float, answer: TypeAnswer) -> None:
            if answer.code == REDEFINED:
                self._ask_for(now, TypeRequest(Verb.GET, name), found)
            else:
                self._take(now, answer)
                found(now, answer)

        if self._registry.used(name):
            then(now, TypeAnswer(known))
        elif self._registry.is_owned(name):  # a new rendezvous node may have heard of it from nobody else
            self._questions.ask(TypeRequest(Verb.KEEP, name, known), kept)
        else:
            self._ask_for(now, TypeRequest(Verb.GET, name), found)

    def to_use(self, now: float, name: str, then: Then) -> None:
        """As `with_type`, but the rendezvous node must know that clients here use the type."""
        if self._registry.used(name):
            then(now, TypeAnswer(self._registry.chain(name)))
        else:
            self._ask_for(now, TypeRequest(Verb.USE, name, router=self._router), then)

    def unuse(self, name: str) -> None:
        if self._registry.unuse(name):
            self.unused(name)

    def unused(self, name: str) -> None:
        """Clients here do not use it (any more)."""
        self._questions.ask(TypeRequest(Verb.UNUSE, name, router=self._router), lambda now, answer: None)

    def keep(self) -> None:
        """Say again what was added or is used here."""
        for chain, used in self._registry.kept():
            self._keep(chain, used)
        for name in self._registry.missed():
            self._use_again(name)

    def _keep(self, chain: Chain, used: bool) -> None:
        name = chain[-1].name

        def kept(now: float, answer: TypeAnswer) -> None:
            if answer.code == REDEFINED and used:
                self._use_again(name)
            elif answer.code in (UNKNOWN, REDEFINED):
                self._registry.forget(name, chain)
            else:
                self._take(now, answer)

        self._questions.ask(TypeRequest(Verb.KEEP, name, chain, self._router if used else 0), kept)

    def _take(self, now: float, answer: TypeAnswer) -> None:
        """Another broker has given the type more attributes."""
        if answer.chain and not answer.code and answer.chain != self._registry.chain(answer.chain[-1].name):
            self._registry.learn(now, answer.chain)

    def _use_again(self, name: str) -> None:
        """It is used here in a form that it has no longer: learn the one that it has."""
        before = self._registry.chain(name)

        def answered(now: float, answer: TypeAnswer) -> None:
            if not answer.code:
                self._registry.learn(now, answer.chain)
                if not self._registry.used(name):  # clients here have let go of it meanwhile
                    self.unused(name)
            elif answer.code == UNKNOWN:
                self._registry.forget(name, before)

        self._questions.ask(TypeRequest(Verb.USE, name, router=self._router), answered)

    def _ask_for(self, now: float, request: TypeRequest, then: Then) -> None:
        def learned(now: float, answer: TypeAnswer) -> None:
            then(now, answer if answer.code else self._registry.learn(now, answer.chain))

        self._questions.ask_for(now, request, learned)
