"""Interface of routing schemes: from local interests, other routers' news and routes, a scheme fills its node's tables.

A scheme is a machine of the control plane. It sees no message of a client; the forwarding plane does, and acts by the
*tables* that the scheme keeps right. The node calls each method when its name says so, carries out the effects, and
calls `tick` when the timer `TIMER` rings.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from typing import Protocol, TypeAlias

from tidings.errors import TidingsError
from tidings.model.event_type import EventType
from tidings.model.predicate import Predicate
from tidings.routing.bdrp.local_interests import LocalInterests
from tidings.routing.control.messages import SchemeMessage
from tidings.routing.effects import Deliver, Effect, Router, UnicastTable

TIMER = "scheme"


class Tables(Protocol):
    """The forwarding plane as a scheme sees it. A row is one encoded conjunction (interests.py)."""

    def interest(self, router: Router, added: Collection[bytes], removed: Collection[bytes]) -> None:
        """These rows lead to this router once more from now on, and those once less."""

    def forget(self, router: Router) -> None:
        """No row leads to this router any more."""

    def routes(self, next_hops: Mapping[Router, Router]) -> None:
        """For every router that can be reached: the neighbour on the way to it."""


class EventTables(Protocol):
    """The forwarding plane's tables of events: a tree for each type."""

    def event_tree(
        self, name: str, up: Router, calls: bool, neighbours: Sequence[Router], parents: Sequence[str]
    ) -> None:
        """Sets a tree: `up`, the next hop towards the rendezvous node, 0 there; `calls`, if that asks for all events;
        the neighbours and types in whose trees all events go on."""

    def drop_event_tree(self, name: str) -> None: ...

    def event_filter(self, name: str, neighbour: Router, parent: str, placed: bytes, filter: bytes) -> int:
        """Events that match go to this neighbour, or (0) on in the tree of a parent. `placed` asks for the tree's name,
        too. Returns its number."""

    def drop_event_filter(self, number: int) -> None: ...


class Scheme(Protocol):
    @property
    def predicates(self) -> Mapping[Router, Set[bytes]]:
        """Known interests of other routers, as rows; empty for schemes that do not tell everybody."""
        ...

    def payloads(self, router: Router) -> Mapping[int, Sequence[bytes]]:
        """Returns what a router advertised, by part: the whole and the differences since. An unknown one: nothing."""
        ...

    @property
    def local(self) -> LocalInterests:
        """The subscriptions that this router advertises by the flood, and the rows made of them."""
        ...

    def local_rows(self) -> set[bytes]:
        """Returns this router's interests that the others should know, as rows."""
        ...

    @property
    def announced(self) -> bool:
        """All local interests have been flooded."""
        ...

    @property
    def applied(self) -> bool:
        """All that the flood brought of other routers' interests is in the tables."""
        ...

    def counts(self) -> Mapping[str, int]:
        """Returns counts worth showing: sizes of tables, messages by kind."""
        ...

    def start(self, now: float) -> list[Effect]: ...

    def subscribe(self, now: float, predicate: bytes) -> list[Effect]:
        """One more local subscription has this predicate, encoded."""

    def unsubscribe(self, now: float, predicate: bytes) -> list[Effect]:
        """One fewer has it."""

    def narrow(self, now: float, predicates: Iterable[bytes]) -> list[Effect]:
        """Advertise these local interests by their exact filters from now on, if they are encoded."""

    def learn(self, now: float, item: Deliver | tuple[Router, SchemeMessage]) -> list[Effect]:
        """Takes in what the flood brought of another router, or what a neighbour said to this scheme alone."""

    def forget(self, now: float, router: Router) -> list[Effect]:
        """This router was removed for good: what is known of its interests goes."""

    def routed(self, now: float, table: UnicastTable) -> list[Effect]:
        """Routes have changed."""

    def tick(self, now: float) -> list[Effect]: ...


class Carrier(Scheme, Protocol):
    """A scheme that brings messages to other brokers itself, in SchemeMessages. The plane gives it what enters here and
    is not persistent; what it brings for subscribers here it returns as HandOver. What comes and goes by links it
    reports as Passed."""

    def link_up(self, now: float, neighbour: Router) -> list[Effect]:
        """There is a link to this neighbour now."""

    def link_down(self, now: float, neighbour: Router) -> list[Effect]:
        """It is lost, and what was on its way with it."""

    def advertise(self, now: float, predicate: Predicate) -> list[Effect]:
        """A client here will publish messages that match this."""

    def unadvertise(self, now: float, predicate: Predicate) -> list[Effect]:
        """One fewer will."""

    def publish(self, now: float, message: bytes) -> list[Effect]:
        """A message enters here; subscribers of this broker have it already."""


Then: TypeAlias = Callable[[TidingsError | None], None]  # what to do when a request is answered; None: it is done


class EventCarrier(Scheme, Protocol):
    """A scheme that also routes typed events (tidings.model.event_type_topics): by the plane's `EventTables`, and those
    that are persistent itself, in SchemeMessages."""

    def link_up(self, now: float, neighbour: Router) -> list[Effect]: ...

    def link_down(self, now: float, neighbour: Router) -> list[Effect]: ...

    def lasting(self, now: float, predicate: bytes, *, on: bool) -> list[Effect]:
        """One more, or one fewer, local subscription with this predicate must not miss what is published while this
        broker is away."""

    def take_changed(self) -> set[str]:
        """Returns the types whose form is another since the last call, or is not known any more."""

    def types(self) -> list[EventType]:
        """Those that are known here, parents first."""

    def chain(self, name: str) -> tuple[EventType, ...]:
        """A type after its ancestors; empty: it is not known here."""

    def owned(self) -> list[tuple[EventType, ...]]:
        """Types that were added here: what must outlive a restart."""

    def own(self, chain: tuple[EventType, ...]) -> None:
        """This one was added here in an earlier life."""

    def add_type(self, now: float, event_type: EventType, then: Then) -> list[Effect]: ...

    def remove_type(self, now: float, name: str, then: Then) -> list[Effect]: ...

    def get_type(self, now: float, name: str, then: Then) -> list[Effect]:
        """Ask for a type; `chain` has it then."""

    def advertise_type(self, now: float, name: str, then: Then) -> list[Effect]:
        """One more client publishes events of this type."""

    def unadvertise_type(self, now: float, name: str) -> list[Effect]: ...

    def post(self, now: float, message: bytes) -> list[Effect]:
        """A persistent event enters here, or is to be sent again; it ends in `Safe`."""

    def handed(self, now: float, type: str, tag: bytes) -> list[Effect]:
        """Notes that the message of a HandOver with a tag is safe here."""

    def refused(self, now: float, type: str, tag: bytes) -> list[Effect]:
        """It could not be stored, and is to be handed over again later."""

    def reroute(self, now: float) -> list[Effect]:
        """The overlay has changed."""

    def asked(self, now: float, payload: bytes) -> tuple[bytes, list[Effect]]:
        """Another broker's AskKey: the answer."""

    def answered(self, now: float, token: int, payload: bytes | None) -> list[Effect]:
        """The answer to an AskKey; None: there was none."""
