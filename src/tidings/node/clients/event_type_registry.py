"""Registries of event types: local to a broker, or held by the routing scheme of its network."""

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Protocol

from tidings.delivery.store import Note, Recovered
from tidings.errors import TidingsError, UsageError
from tidings.model.codec import decode_predicate
from tidings.model.event_type import EventType, EventTypeError, TypeTree
from tidings.model.event_type_topics import names_events, typed_interest
from tidings.node.clients.answer_batch import AnswerBatch
from tidings.node.completions import AnswerRequest
from tidings.node.mailboxes.journal import Journal
from tidings.node.network.network import Network
from tidings.node.network.notes import TYPE_NOTE
from tidings.node.observed_plane import InterestChange
from tidings.routing.hermes.codec import decode_types, encode_types
from tidings.routing.scheme import Then


class EventTypeRegistry(Protocol):
    """Keeps event types and changes them. A change has been made when `then` is called, which may be at once: with
    None, or with the error that prevented it. A change that is written is answered when it is durable."""

    def types(self) -> list[EventType]:
        """Those that are known here, parents first."""

    def chain(self, name: str) -> tuple[EventType, ...]:
        """A type after its ancestors; empty: it is not known here, which `get` can change."""

    def get(self, name: str, then: Then) -> None: ...

    def add(self, event_type: EventType, answer: AnswerRequest) -> None: ...

    def remove(self, name: str, answer: AnswerRequest) -> None: ...

    def advertise(self, name: str, then: Then) -> None: ...

    def unadvertise(self, name: str) -> None: ...

    def take_changed(self) -> set[str]:
        """Returns the types whose form is another since the last call, or is not known any more."""


class LocalEventTypes:
    """Of a broker that stands alone."""

    def __init__(self, journal: Journal, outbox: AnswerBatch) -> None:
        self._journal, self._outbox = journal, outbox
        self._tree = TypeTree()
        self._changed: set[str] = set()  # in another form than before
        self._advertised: Counter[str] = Counter()
        self._subscribed: Counter[str] = Counter()

    def recover(self, recovered: Recovered) -> None:
        stored = [value for key, value in recovered.notes.items() if key.startswith(f"{TYPE_NOTE}:") and value]
        newest: dict[str, EventType] = {}
        for one in (one for value in stored for one in decode_types(value)):
            if one.name not in newest or newest[one.name].version < one.version:
                newest[one.name] = one
        self._tree.add_all(newest.values())

    def changed(self, interests: list[InterestChange]) -> None:
        """Subscriptions came and went."""
        for added, predicate, _ in interests:
            if not names_events(predicate):  # decoding takes long, and most name none
                continue
            if (typed := typed_interest(decode_predicate(predicate))) is not None:
                self._subscribed[typed[0]] += 1 if added else -1

    def types(self) -> list[EventType]:
        return list(self._tree)

    def chain(self, name: str) -> tuple[EventType, ...]:
        if name not in self._tree:
            return ()
        return tuple(self._tree[one] for one in reversed((name, *self._tree.ancestors(name))))

    def get(self, name: str, then: Then) -> None:
        known = name in self._tree
        then(None if known else EventTypeError("E_TYPE_UNKNOWN", f"there is no event type {name!r}"))

    def add(self, event_type: EventType, answer: AnswerRequest) -> None:
        self._try(answer, lambda: self._add(event_type))

    def remove(self, name: str, answer: AnswerRequest) -> None:
        self._try(answer, lambda: self._remove(name))

    def advertise(self, name: str, then: Then) -> None:
        self._advertised[name] += name in self._tree
        self.get(name, then)

    def unadvertise(self, name: str) -> None:
        self._advertised[name] -= 1

    def take_changed(self) -> set[str]:
        changed, self._changed = self._changed, set()
        return changed

    def _add(self, event_type: EventType) -> None:
        if self._tree.add(event_type):  # perhaps with more attributes, which its subtypes have then too
            self._changed |= {event_type.name, *self._tree.descendants(event_type.name)}
            self._note(event_type.name, encode_types(self.chain(event_type.name)))

    def _remove(self, name: str) -> None:
        if self._advertised[name] or self._subscribed[name]:
            raise EventTypeError("E_TYPE_IN_USE", f"event type {name!r} is subscribed to or advertised")
        self._tree.remove(name)
        self._note(name, b"")

    def _note(self, name: str, value: bytes) -> None:
        self._journal.change(Note(f"{TYPE_NOTE}:{name}", value))

    def _try(self, answer: AnswerRequest, work: Callable[[], None]) -> None:
        try:
            work()
        except TidingsError as error:
            self._outbox.answer_with(answer.connection, answer.done, error)
        else:
            self._journal.then(answer)


class NetworkEventTypes:
    """Of a broker whose network routes by types."""

    def __init__(self, network: Network, journal: Journal, outbox: AnswerBatch) -> None:
        self._network, self._journal, self._outbox = network, journal, outbox

    def types(self) -> list[EventType]:
        assert self._network.scheme_forwarding.events is not None
        return self._network.scheme_forwarding.events.types()

    def chain(self, name: str) -> tuple[EventType, ...]:
        assert self._network.scheme_forwarding.events is not None
        return self._network.scheme_forwarding.events.chain(name)

    def get(self, name: str, then: Then) -> None:
        self._network.scheme_forwarding.typed(lambda events, now: events.get_type(now, name, then))

    def add(self, event_type: EventType, answer: AnswerRequest) -> None:
        then = partial(self._note, answer)
        self._network.scheme_forwarding.typed(lambda events, now: events.add_type(now, event_type, then))

    def remove(self, name: str, answer: AnswerRequest) -> None:
        then = partial(self._note, answer)
        self._network.scheme_forwarding.typed(lambda events, now: events.remove_type(now, name, then))

    def advertise(self, name: str, then: Then) -> None:
        self._network.scheme_forwarding.typed(lambda events, now: events.advertise_type(now, name, then))

    def unadvertise(self, name: str) -> None:
        self._network.scheme_forwarding.typed(lambda events, now: events.unadvertise_type(now, name))

    def take_changed(self) -> set[str]:
        assert self._network.scheme_forwarding.events is not None
        return self._network.scheme_forwarding.events.take_changed()

    def _note(self, answer: AnswerRequest, error: TidingsError | None) -> None:
        """The network has answered."""
        if error is not None:
            self._outbox.answer_with(answer.connection, answer.done, error)
        else:
            self._network.note_types(self._journal)
            self._journal.then(answer)


class NoEventTypes:
    """Of a broker in a network whose brokers do not tell each other of types."""

    def __init__(self, scheme: str, outbox: AnswerBatch) -> None:
        self._scheme, self._outbox = scheme, outbox

    def types(self) -> list[EventType]:
        return []

    def chain(self, name: str) -> tuple[EventType, ...]:
        return ()

    def get(self, name: str, then: Then) -> None:
        reason = f"a network with routing = {self._scheme!r} has no event types; set [network] routing = 'hermes'"
        then(UsageError("E_TYPE_ROUTING", reason))

    def add(self, event_type: EventType, answer: AnswerRequest) -> None:
        self.remove(event_type.name, answer)

    def remove(self, name: str, answer: AnswerRequest) -> None:
        self.get(name, partial(self._outbox.answer_with, answer.connection, answer.done))

    def advertise(self, name: str, then: Then) -> None:
        self.get(name, then)

    def unadvertise(self, name: str) -> None: ...

    def take_changed(self) -> set[str]:
        return set()
