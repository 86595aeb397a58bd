"""Messages between Hermes brokers, and effects that a broker's machine asks of its driver.

Along the overlay's links travel `Tell` and `Untell`, which change what the neighbour knows of interests in a type, and
publications. What concerns a type itself goes to its rendezvous node as a request that is answered (`TypeRequest`).
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple, TypeAlias

from tidings.errors import TidingsError
from tidings.model.event_type import EventType
from tidings.model.predicate import Predicate
from tidings.overlay.effects import ControlMessage, Router, SetTimer
from tidings.routing.effects import Send

__all__ = ["Send"]


class InterestKind(IntEnum):
    """Kinds of interest in a type that brokers tell each other."""

    ADVERTISED = 1  # events come from here; goes towards the rendezvous node
    TYPE = 2  # all events are wanted; goes towards the rendezvous node
    FILTER = 3  # events that match are wanted; also goes towards where events come from
    FLOW = 4  # somebody wants all events: send them to the rendezvous node; goes towards where events come from


SUBSCRIPTIONS = (InterestKind.TYPE, InterestKind.FILTER)


class HermesSubscriptionId(NamedTuple):
    router: Router
    number: int


@dataclass(frozen=True, slots=True)
class Tell(ControlMessage):
    """This filter is wanted, or advertised, by the sender from now on, for so long unless it is said again."""

    type: str
    kind: InterestKind
    filter: Predicate
    lifetime_ms: int


@dataclass(frozen=True, slots=True)
class Untell(ControlMessage):
    """`moved`: not because nobody wants it, but because ways have changed; it will be told again from elsewhere."""

    type: str
    kind: InterestKind
    filter: Predicate
    moved: bool = False


@dataclass(frozen=True, slots=True)
class HermesPublication(ControlMessage):
    """An event in the tree of a type: its own, or an ancestor. The flags say which subscriptions it is for."""

    type: str
    by_type: bool
    by_filter: bool
    rising: bool  # towards the rendezvous node, as the sender sees it
    tag: bytes  # of a persistent event: its id, by which it is acknowledged; otherwise empty
    message: bytes  # docs/wire.md, "Message"


@dataclass(frozen=True, slots=True)
class Settled(ControlMessage):
    """The persistent event with this tag is safe with everybody beyond the sender in this type's tree."""

    type: str
    tag: bytes


@dataclass(frozen=True, slots=True)
class EchoEvent(ControlMessage):
    """Goes to the rendezvous node, and back the same way behind all that was told: then a new publisher's broker knows
    where its events are wanted."""

    type: str
    number: int  # of the sender; it comes back with it
    back: bool


@dataclass(frozen=True, slots=True)
class Estate(ControlMessage):
    """The knowledge of a rendezvous node about a type, for the broker that would take its place; all of it, in place of
    what was said before."""

    type: str
    chain: tuple[EventType, ...] = ()  # the type and its ancestors, the root first; empty: there is no such type
    subtypes: tuple[tuple[EventType, ...], ...] = ()  # the chains of its subtypes
    users: tuple[Router, ...] = ()  # whose clients use it


HermesMessage: TypeAlias = Tell | Untell | HermesPublication | Settled | EchoEvent | Estate

# Requests to a rendezvous node, and the answer.


class Verb(IntEnum):
    ADD = 1  # the chain's last type exists
    KEEP = 2  # the same, said again by who owns or uses it: it does not bring back a type that was removed
    GET = 3
    REMOVE = 4  # not while clients of some broker use it
    HEIR = 5  # the chain's last type is a subtype of `name`
    DISINHERIT = 6
    USE = 7  # GET, and clients of the router use it from now on
    UNUSE = 8  # they no longer do


@dataclass(frozen=True, slots=True)
class TypeRequest(ControlMessage):
    verb: Verb
    name: str
    chain: tuple[EventType, ...] = ()  # the type and its ancestors, the root first
    router: Router = 0  # with KEEP, USE, UNUSE: whose clients use it; 0: nobody's


@dataclass(frozen=True, slots=True)
class TypeAnswer(ControlMessage):
    chain: tuple[EventType, ...] = ()
    code: str = ""  # of the error; empty: done
    reason: str = ""


# Effects.


@dataclass(frozen=True, slots=True)
class Request:
    """Bring this to the node closest to the key, and its answer to `Hermes.answered`."""

    token: int
    key: int
    request: TypeRequest


@dataclass(frozen=True, slots=True)
class HermesHandOver:
    """Give an event to these subscriptions of clients here. With a tag: say when it is safe with them (`handed`)."""

    subscriptions: tuple[HermesSubscriptionId, ...]
    message: bytes
    tag: bytes = b""
    type: str = ""  # in whose tree it came


@dataclass(frozen=True, slots=True)
class RequestDone:
    """The request of a client under this token is done, or has failed with this error."""

    token: int
    error: TidingsError | None = None


@dataclass(frozen=True, slots=True)
class HermesSafe:
    """A persistent event published here has reached all its subscribers."""

    tag: bytes


HermesEffect: TypeAlias = Send | Request | HermesHandOver | RequestDone | HermesSafe | SetTimer
