"""Broker-to-broker control messages: frozen records, a closed union, shared by all protocols and schemes.

Three families. *Link*: about the link itself (tidings.overlay.link.greeting). *Flood*: versioned state of a router,
brought reliably to all others; link-state, B-DRP's advertisements and membership are topics of the same flood.
*Vector*: distance-vector's updates. A scheme that talks to its neighbours about its own things (covering, Hermes) uses
`SchemeMessage`, whose body it encodes itself.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple, TypeAlias

from tidings.overlay.effects import ControlMessage, Router
from tidings.overlay.link.greeting import Goodbye, Greeting, LinkPing, Pong, Refuse, Welcome


class Topic(IntEnum):
    """Subjects of flooded items. Numbers below 128 are given here, the others are free for experiments."""

    LINKS = 1  # a router's live links and their costs: link-state
    PREDICATES = 2  # a router's encoded interests: B-DRP
    QUEUES = 3  # queues of the network whose home a router is


class Version(NamedTuple):
    """Ordered: a later start of the router beats everything it said before."""

    incarnation: int
    sequence: int


@dataclass(frozen=True, slots=True)
class FloodItem(ControlMessage):
    topic: int
    origin: Router
    version: Version
    lifetime_ms: int  # what is left of it; it only ever shrinks on the way, so nothing circulates for ever
    full: bool  # the whole state, or the difference to the item with the sequence number before
    payload: bytes


@dataclass(frozen=True, slots=True)
class FloodAck(ControlMessage):
    topic: int
    origin: Router
    version: Version


class Known(NamedTuple):
    topic: int
    origin: Router
    version: Version


@dataclass(frozen=True, slots=True)
class FloodSummary(ControlMessage):
    """Versions that the sender has; the receiver sends what is newer."""

    known: tuple[Known, ...]
    whole: bool  # False: only about the items named here


class VectorRoute(NamedTuple):
    destination: Router
    version: Version  # of the destination
    distance: int  # INFINITY: not through me


@dataclass(frozen=True, slots=True)
class VectorUpdate(ControlMessage):
    routes: tuple[VectorRoute, ...]
    whole: bool  # True: what is not named here is not reachable through the sender


@dataclass(frozen=True, slots=True)
class VectorRequest(ControlMessage):
    """Somebody needs a route of at least this version to the destination."""

    destination: Router
    version: Version
    hops_left: int


@dataclass(frozen=True, slots=True)
class SchemeMessage(ControlMessage):
    scheme: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class Taken(ControlMessage):
    """The persistent messages with these tags are safe here: the sender need not keep them for these destinations."""

    tags: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class StoreMarks(ControlMessage):
    """The mark that the sender's store surely has, and the highest one that it has heard of the receiver's."""

    mine: int
    yours: int


@dataclass(frozen=True, slots=True)
class Datagram(ControlMessage):
    """For one broker, wherever it is: everybody on the way passes it on by the routes there are. It may get lost."""

    target: Router
    source: Router
    hops_left: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class Congested(ControlMessage):
    """By way of the sender these destinations are congested, and no others: publishers of messages for them wait."""

    routers: tuple[Router, ...]


Control: TypeAlias = (
    Greeting
    | Welcome
    | Refuse
    | Goodbye
    | LinkPing
    | Pong
    | FloodItem
    | FloodAck
    | FloodSummary
    | VectorUpdate
    | VectorRequest
    | SchemeMessage
    | Taken
    | StoreMarks
    | Datagram
    | Congested
)
