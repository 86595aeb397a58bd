"""Effects of the machines that route: unicast protocols and routing schemes.

These machines know neighbours, not connections: `neighbour` is the router number of a peer with a live link, and
there is at most one link to each. Their owner, the node, turns `Send` into a transmission on that link, arms the
timer, and gives tables to the forwarding plane. The union is closed: a `match` over it ends in `assert_never`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from tidings.overlay.effects import ControlMessage, Report, Router, SetTimer

__all__ = [
    "AskKey",
    "Deliver",
    "Effect",
    "HandOver",
    "Install",
    "Passed",
    "Report",
    "Route",
    "Router",
    "RoutingOutcome",
    "Safe",
    "Send",
    "SetTimer",
    "UnicastTable",
]


class Route(NamedTuple):
    next_hop: Router
    distance: int


@dataclass(frozen=True, slots=True)
class UnicastTable:
    """Routes to every other router that can be reached now. Never changed once made, so it can be shared."""

    routes: Mapping[Router, Route]
    takers: Mapping[Router, tuple[Router, ...]] = field(default_factory=dict)  # neighbours: origins of their broadcasts


@dataclass(frozen=True, slots=True)
class Send:
    """To a neighbour. If the link has gone in the meantime the message is lost, and the machine hears of the link."""

    neighbour: Router
    message: ControlMessage


@dataclass(frozen=True, slots=True)
class Install:
    """This table replaces the one of the same type."""

    table: Any  # UnicastTable, and the tables of the schemes


@dataclass(frozen=True, slots=True)
class Deliver:
    """A flooded item of another router, for whoever follows its topic."""

    topic: int
    origin: Router
    full: bool  # a whole state; otherwise a difference to what was delivered last
    payload: bytes | None  # None: the router has vanished and its state with it


@dataclass(frozen=True, slots=True)
class HandOver:
    """A message for subscribers of this broker, from a scheme that carries messages. With a tag it is persistent, and
    the scheme learns when it is safe here (`EventCarrier.handed`)."""

    message: bytes
    tag: bytes = b""
    type: str = ""


@dataclass(frozen=True, slots=True)
class AskKey:
    """A request for the broker whose id is closest to this key; Pan brings it there, and the answer back."""

    token: int
    key: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class Safe:
    """A persistent event that entered here is with all its subscribers."""

    tag: bytes


@dataclass(frozen=True, slots=True)
class Passed:
    """For the records: the message with this id, which a scheme carries, has come from a neighbour, or goes to one."""

    id: bytes
    to: Router | None = None


RoutingOutcome: TypeAlias = Install | Deliver | HandOver | AskKey | Safe | Passed  # `Effect` less what is carried out
Effect: TypeAlias = Send | SetTimer | Install | Deliver | HandOver | AskKey | Safe | Passed | Report
