"""Inputs of the engine: everything a driver brings to it, as records of a closed union.

A driver opens and closes connections of the forwarding plane and feeds them bytes; what comes of that, and all else
that happens, goes through `Engine.step` as one of these. Inputs of links are those of `overlay.effects`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from tidings.delivery.policy import QueuePolicy
from tidings.errors import TidingsError
from tidings.model.destination import Destination
from tidings.node.clients.session import Principal
from tidings.node.limits import BrokerLimits, UserQuota
from tidings.node.protocol_session import Hello, ProtocolSession
from tidings.node.requests import Outcome, Request
from tidings.overlay import effects as fx
from tidings.overlay.effects import Router
from tidings.tracking.trace_answer import KeyAnswer, TraceAnswer


class Now(NamedTuple):
    wall_ms: int  # the time of day, by which messages expire; it may be set back
    steady_ms: float  # never goes back: the time of links


@dataclass(frozen=True, slots=True)
class PlaneReady:
    """The forwarding plane has events. The engine takes as many as one step may handle; ask `has_events` for more."""


@dataclass(frozen=True, slots=True)
class Turn:
    """Finish what earlier inputs began. After `Persisted` and the answers to `PersistNow`, which only bring receipts:
    those may be written before deliveries are made."""


@dataclass(frozen=True, slots=True)
class Tick:
    """About once a second: look for what has expired, and try again what could not be written."""


@dataclass(frozen=True, slots=True)
class TrackingTick:
    """A few times a second: store what was recorded, look after traces."""


# Clients.


@dataclass(frozen=True, slots=True)
class ClientOpened:
    """A client has connected; the plane has its connection under this number."""

    connection: int
    session: ProtocolSession
    address: str = ""


@dataclass(frozen=True, slots=True)
class ClientLost:
    """The client's connection is gone, with or without a farewell; the driver closes the plane's after this step."""

    connection: int


@dataclass(frozen=True, slots=True)
class LoggedIn:
    """The answer to `LogIn`: the client is this principal."""

    connection: int
    hello: Hello
    principal: Principal
    token: str = ""  # with which it can log in again


@dataclass(frozen=True, slots=True)
class LoginRefused:
    """The other answer to `LogIn`."""

    connection: int
    error: TidingsError


@dataclass(frozen=True, slots=True)
class Inspected:
    """The answer to `Inspection`."""

    connection: int
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class ClientRequest:
    """A request that did not come as a frame."""

    connection: int
    request: Request


@dataclass(frozen=True, slots=True)
class PingClient:
    """The client was silent for long, or must hear from the broker."""

    connection: int


@dataclass(frozen=True, slots=True)
class FailClient:
    """The client broke a rule that the driver watches, such as the time for its login: report the error and close."""

    connection: int
    error: TidingsError


@dataclass(frozen=True, slots=True)
class EndClient:
    """End a client's connection politely."""

    connection: int
    code: str
    reason: str


@dataclass(frozen=True, slots=True)
class RefuseClient:
    """There are too many connections: this one is not served."""

    connection: int
    reason: str


@dataclass(frozen=True, slots=True)
class Reconfigured:
    """Limits and access control for clients that log in from now on; policies for all queues, quotas for all users."""

    limits: BrokerLimits
    open: bool  # no users are configured: every client has full access
    policies: tuple[QueuePolicy, ...] = ()
    quotas: tuple[UserQuota, ...] = ()


# Completions of effects.


@dataclass(frozen=True, slots=True)
class Persisted:
    """Batches are durable, or refused as a whole. `Turn` follows."""

    tickets: Sequence[int]
    error: TidingsError | None


@dataclass(frozen=True, slots=True)
class PersistedNow:
    """The answer to `PersistNow`: written, or refused with an error. `Turn` follows, and no other input may come before
    it."""

    error: TidingsError | None = None


@dataclass(frozen=True, slots=True)
class PersistLate:
    """Another answer to `PersistNow`: the write was begun and takes long; `Persisted` will say what became of it.
    `Turn` follows, and no other input may come before it."""


@dataclass(frozen=True, slots=True)
class NotPersisted:
    """Another answer to `PersistNow`: the write was not begun, so the records go the usual way. `Turn` follows, and no
    other input may come before it."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """Answer of the store: what was requested, what it found, and what it can never bring."""

    asked: Sequence[int]
    messages: Mapping[int, bytes]
    damaged: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class Resolved:
    """Answer of the archive of histories to an inquiry."""

    number: int
    answer: TraceAnswer | KeyAnswer


# Links.


@dataclass(frozen=True, slots=True)
class LinksReady:
    """Links may be made now; other brokers reach this one at the address, if it has one."""

    address: str = ""


@dataclass(frozen=True, slots=True)
class LinkOpened:
    """A link's connection was made; the plane has it under this number."""

    connection: str
    number: int
    dialled: bool
    challenge: bytes = b""  # random bytes, where links prove themselves by a secret


@dataclass(frozen=True, slots=True)
class StopLinks:
    """Say goodbye to all neighbours."""

    reason: str


@dataclass(frozen=True, slots=True)
class PeersChanged:
    """The configuration names these neighbours now: addresses to dial, with the router expected there, and costs."""

    dials: tuple[tuple[str, Router | None], ...]
    costs: Mapping[Router, int]


@dataclass(frozen=True, slots=True)
class ReleaseHeld:
    """An operator says that what is held since the store was replaced may go to subscribers."""


@dataclass(frozen=True, slots=True)
class ForgetBroker:
    """This broker was removed for good: what waits for it goes to the queue, or is dropped."""

    router: Router
    queue: Destination | None = None


@dataclass(frozen=True, slots=True)
class LeaveNetwork:
    """Withdraw the interests of this broker: others send it nothing more."""


@dataclass(frozen=True, slots=True)
class StopTracking:
    """The process ends: store all that was recorded."""


Completion: TypeAlias = Persisted | PersistedNow | PersistLate | NotPersisted | Loaded | Resolved
OfClient: TypeAlias = (  # of one that has opened a connection, and may have left meanwhile
    LoggedIn | LoginRefused | Inspected | ClientRequest | PingClient | FailClient | EndClient | RefuseClient
)
ClientInput: TypeAlias = ClientOpened | ClientLost | Reconfigured | OfClient
LinkInput: TypeAlias = (
    LinksReady
    | LinkOpened
    | StopLinks
    | PeersChanged
    | ForgetBroker
    | LeaveNetwork
    | ReleaseHeld
    | fx.Lost
    | fx.Authenticated
    | fx.Denied
    | fx.Carried
    | fx.Timer
)
Input: TypeAlias = PlaneReady | Turn | Tick | TrackingTick | StopTracking | Completion | ClientInput | LinkInput
