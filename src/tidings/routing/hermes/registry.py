"""The event types a broker knows: as their rendezvous node, as the broker where they were added, or because clients use
them. Only rendezvous nodes are asked; what they know is soft state, refreshed by owners and users.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from tidings.model.event_type import EventType, EventTypeError, TypeTree
from tidings.model.message import reserved
from tidings.model.predicate import Predicate
from tidings.overlay.effects import Router
from tidings.routing.hermes.messages import Estate, TypeAnswer, TypeRequest, Verb
from tidings.routing.hermes.options import HermesOptions
from tidings.routing.hermes.type_forms import evolved, merged

Chain = tuple[EventType, ...]  # a type after its ancestors, the root first
_WITH_TYPE = (Verb.ADD, Verb.KEEP, Verb.HEIR, Verb.DISINHERIT)


class Registry:
    def __init__(self, options: HermesOptions) -> None:
        self._options = options
        self._chains: dict[str, Chain] = {}  # of clients here: owned, used or looked up
        self._owned: set[str] = set()
        self._used: Counter[str] = Counter()
        self._fresh_until: dict[str, float] = {}  # of those merely looked up
        self._kept: dict[str, tuple[Chain, float]] = {}  # as rendezvous node, until when
        self._heirs: dict[str, dict[str, tuple[Chain, float]]] = {}  # of types kept: subtypes
        self._users: dict[str, dict[Router, float]] = {}  # of types kept: routers whose clients use them, until when
        self._removed: dict[str, tuple[float, int]] = {}  # until when, and the last version
        self._changed: set[str] = set()  # in another form than before, or not known any more

    # --- for clients here -----------------------------------------------------------------------------------------

    def chain(self, name: str) -> Chain:
        """Empty if it is not known here."""
        return self._chains.get(name, ())

    def types(self) -> list[EventType]:
        """All that are known here, parents first."""
        found: dict[str, EventType] = {}
        for chain in [*self._chains.values(), *(chain for chain, _ in self._kept.values())]:
            found.update((one.name, one) for one in chain)
        return list(found.values())

    def learn(self, now: float, chain: Chain) -> TypeAnswer:
        if (wrong := _problem(chain)) is not None:
            return wrong
        name = chain[-1].name
        if (before := self._chains.get(name)) != chain:
            if before is None or not evolved(chain, before):
                self._owned.discard(name)  # what was added here has been removed since
            self._changed.add(name)
        self._chains[name] = chain
        self._fresh_until[name] = now + self._options.lifetime_ms
        return TypeAnswer(chain)

    def own(self, chain: Chain) -> None:
        self._chains[chain[-1].name] = chain
        self._owned.add(chain[-1].name)
        self._changed.add(chain[-1].name)

    def disown(self, name: str) -> None:
        self._owned.discard(name)
        self._chains.pop(name, None)
        self._changed.add(name)

    def take_changed(self) -> set[str]:
        changed, self._changed = self._changed, set()
        return changed

    def forget(self, name: str, chain: Chain) -> None:
        """There is no such type any more; unless another form of it is known here by now."""
        if self._chains.get(name) == chain:
            self.disown(name)

    def is_owned(self, name: str) -> bool:
        """Reports whether the type was added here."""
        return name in self._owned

    def owned(self) -> list[Chain]:
        return [self._chains[name] for name in sorted(self._owned)]

    def used(self, name: str) -> bool:
        """By clients here; then the rendezvous node lets nobody remove it."""
        return self._used[name] > 0 and name in self._chains

    def use(self, name: str) -> None:
        self._used[name] += 1

    def unuse(self, name: str) -> bool:
        """Ends one use; reports whether no client here uses the type any more."""
        self._used[name] -= 1
        return self._used[name] == 0

    def check_filter(self, name: str, filter: Predicate) -> TypeAnswer:
        """A filter asks only for attributes that every event of the type has."""
        declared = TypeTree(self._chains[name]).attributes(name)
        for conjunction in filter.conjunctions:
            for constraint in conjunction:
                if constraint.name not in declared and not reserved(constraint.name):
                    reason = f"event type {name!r} has no attribute {constraint.name!r}"
                    return TypeAnswer((), "E_EVENT_UNKNOWN", reason)
        return TypeAnswer(self._chains[name])

    def kept(self) -> list[tuple[Chain, bool]]:
        """Returns the types to repeat to their rendezvous nodes, and whether clients here use them."""
        names = [name for name in self._chains if name in self._owned or self._used[name]]
        return [(self._chains[name], self._used[name] > 0) for name in names]

    def missed(self) -> list[str]:
        """Returns the types that clients here use although they did not exist when last asked for."""
        return [name for name, count in self._used.items() if count > 0 and name not in self._chains]

    def expire(self, now: float) -> None:
        for name in [name for name, until in self._fresh_until.items() if until <= now]:
            del self._fresh_until[name]
            if name not in self._owned and not self._used[name]:
                self._chains.pop(name, None)
                self._changed.add(name)
        self._kept = {name: one for name, one in self._kept.items() if one[1] > now}
        self._removed = {name: one for name, one in self._removed.items() if one[0] > now}
        for users in self._users.values():
            for router in [router for router, until in users.items() if until <= now]:
                del users[router]
        self._users = {name: users for name, users in self._users.items() if users}
        for name, subtypes in list(self._heirs.items()):
            self._heirs[name] = {child: one for child, one in subtypes.items() if one[1] > now}

    def hand_over(self, mine: Callable[[str], bool]) -> list[TypeRequest]:
        """Forgets types that have another rendezvous node now; returns the requests that hand them over."""
        gone = [name for name in self.held() if not mine(name)]
        requests = [request for name in gone for request in requests_of(self.estate(name))]
        for name in gone:
            for table in (self._kept, self._heirs, self._users):
                table.pop(name, None)
        return requests

    def held(self) -> list[str]:
        """The types that this broker knows of as their rendezvous node."""
        return sorted(self._kept.keys() | self._heirs.keys())

    def estate(self, name: str) -> Estate:
        """Returns all that this broker knows of a type as its rendezvous node."""
        chain, _ = self._kept.get(name, ((), 0.0))
        subtypes = sorted(self._heirs.get(name, {}).items())
        return Estate(name, chain, tuple(one for _, (one, _) in subtypes), tuple(sorted(self._users.get(name, {}))))

    # --- as rendezvous node ---------------------------------------------------------------------------------------

    def asked(self, now: float, request: TypeRequest) -> TypeAnswer:
        name, until = request.name, now + self._options.types_ms
        known, _ = self._kept.get(name, ((), 0.0))
        if request.verb in _WITH_TYPE and not request.chain:
            return TypeAnswer((), "E_TYPE_REQUEST", f"a request about event type {name!r} must carry the type")
        match request.verb:
            case Verb.ADD | Verb.KEEP:
                if request.chain[-1].name != name:
                    reason = f"a request about event type {name!r} carries type {request.chain[-1].name!r}"
                    return TypeAnswer((), "E_TYPE_REQUEST", reason)
                if request.verb is Verb.KEEP and name in self._removed:
                    return _unknown(name)
                chain, wrong = self._form(request, known)
                if wrong is not None:
                    return wrong
                self._removed.pop(name, None)
                self._kept[name] = (chain, until)
                self._note_user(now, request)
                return TypeAnswer(chain)
            case Verb.GET | Verb.USE:
                if not known:
                    return _unknown(name)
                self._note_user(now, request)
                return TypeAnswer(known)
            case Verb.UNUSE:
                self._users.get(name, {}).pop(request.router, None)
                return TypeAnswer()
            case Verb.REMOVE:
                if not known:
                    return _unknown(name)
                if subtypes := self._heirs.get(name):
                    reason = f"event type {name!r} has subtypes, such as {min(subtypes)!r}; remove these first"
                    return TypeAnswer((), "E_TYPE_SUBTYPES", reason)
                if users := self._users.get(name):
                    who = ", ".join(map(str, sorted(users)))
                    reason = f"event type {name!r} is subscribed to or advertised at broker {who}"
                    return TypeAnswer((), "E_TYPE_IN_USE", reason)
                del self._kept[name]
                self._removed[name] = now + 2 * self._options.lifetime_ms, known[-1].version
                return TypeAnswer(known)
            case Verb.HEIR:
                self._heirs.setdefault(name, {})[request.chain[-1].name] = (request.chain, until)
                if known or len(request.chain) > 1:  # a new rendezvous node learns of the parent from its subtypes
                    newer = merged(known, request.chain[:-1]) or known
                    self._kept[name] = (newer or request.chain[:-1], until)  # which keep it alive
                return TypeAnswer()
            case Verb.DISINHERIT:
                self._heirs.get(name, {}).pop(request.chain[-1].name, None)
                return TypeAnswer()

    def outdated(self, name: str) -> list[Chain]:
        """Takes a new form of a type over into its subtypes; returns these, to be told to their rendezvous nodes."""
        known, _ = self._kept.get(name, ((), 0.0))
        fresh: list[Chain] = []
        for child, (chain, until) in list(self._heirs.get(name, {}).items()):
            newer = merged(known, chain[:-1])
            if newer is not None and newer != chain[:-1] and _problem((*newer, chain[-1])) is None:
                self._heirs[name][child] = ((*newer, chain[-1]), until)
                fresh.append((*newer, chain[-1]))
        return fresh

    def _form(self, request: TypeRequest, known: Chain) -> tuple[Chain, TypeAnswer | None]:
        """The form that a type has from now on, or what is wrong with the one in the request."""
        name, chain = request.name, request.chain
        adding = request.verb is Verb.ADD
        if not known:
            _, version = self._removed.get(name, (0.0, 0))
            return (*chain[:-1], replace(chain[-1], version=max(chain[-1].version, version + 1))), None
        newer = merged(known, chain, adding=adding)
        if newer is None:
            reason = f"event type {name!r} is defined differently already; a type in use can only get more optional "
            return (), TypeAnswer((), "E_TYPE_REDEFINED", f"{reason}attributes")
        subtypes = [chain for chain, _ in self._heirs.get(name, {}).values()] if newer != known else []
        wrong = next(filter(None, (_problem((*newer, chain[-1])) for chain in subtypes)), _problem(newer))
        return newer, wrong

    def _note_user(self, now: float, request: TypeRequest) -> None:
        if request.router:
            self._users.setdefault(request.name, {})[request.router] = now + self._options.lifetime_ms


def requests_of(estate: Estate) -> list[TypeRequest]:
    """Returns the requests by which another rendezvous node learns the same."""
    name = estate.type
    added = [TypeRequest(Verb.ADD, name, estate.chain)] if estate.chain else []
    subtypes = [TypeRequest(Verb.HEIR, name, chain) for chain in estate.subtypes]
    return [*added, *subtypes, *(TypeRequest(Verb.USE, name, router=router) for router in estate.users)]


def _problem(chain: Chain) -> TypeAnswer | None:
    try:
        TypeTree(chain)
    except EventTypeError as error:
        return TypeAnswer((), error.code, error.reason)
    return None


def _unknown(name: str) -> TypeAnswer:
    return TypeAnswer((), "E_TYPE_UNKNOWN", f"there is no event type {name!r}")
