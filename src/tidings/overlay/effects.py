"""Inputs that the machines of a broker get from their driver, and effects that they ask of it.

Every machine has one entry point: `step(now, input) -> list[Effect]`. `now` is in milliseconds and never goes back; a
driver calls `step` for one input at a time and carries out the effects in order. Rules for drivers:

- A *connection* is a two-way stream of messages that keeps order and loses nothing until it ends. Its name is
  given by whoever opens it, the machine with `Dial` or the driver with `Accepted`, and is never used again.
- After `Close` or `Lost` nothing more is said about a connection; a driver drops what still arrives on it.
- A timer is known by its name; setting it again moves it. It may fire late, never early, and a machine does not
  mind when it fires for nothing.
"""

from dataclasses import dataclass
from typing import TypeAlias

Router: TypeAlias = int  # the number of a broker in its network, u32; 0 is nobody


class ControlMessage:
    """Base of the messages between brokers besides messages of clients. Records; docs/wire.md has their bytes."""

    __slots__ = ()


# Inputs: from the driver to the machine.


@dataclass(frozen=True, slots=True)
class LinkAccepted:
    """Another broker dialled this one."""

    connection: str


@dataclass(frozen=True, slots=True)
class Connected:
    """The dialled peer answered."""

    connection: str


@dataclass(frozen=True, slots=True)
class Lost:
    """The connection ended, or could not be made."""

    connection: str
    reason: str
    refused: bool = False  # the peer's machine answered that nothing listens there
    code: str = ""  # of what was wrong, if it was that


@dataclass(frozen=True, slots=True)
class Received:
    connection: str
    message: ControlMessage


@dataclass(frozen=True, slots=True)
class Authenticated:
    """The answer to `Authenticate`: the peer is who it says."""

    connection: str


@dataclass(frozen=True, slots=True)
class Denied:
    """The other answer to `Authenticate`."""

    connection: str
    code: str
    reason: str


@dataclass(frozen=True, slots=True)
class Carried:
    """Bytes that the connection has carried so far, those of messages too; if known, told before the link's timer."""

    connection: str
    sent_bytes: int
    received_bytes: int


@dataclass(frozen=True, slots=True)
class Timer:
    name: str


Input: TypeAlias = LinkAccepted | Connected | Lost | Received | Authenticated | Denied | Carried | Timer

# Effects: from a machine to its driver.


@dataclass(frozen=True, slots=True)
class Dial:
    connection: str
    address: str


@dataclass(frozen=True, slots=True)
class Transmit:
    connection: str
    message: ControlMessage


@dataclass(frozen=True, slots=True)
class CloseLink:
    """End the connection after what was transmitted on it."""

    connection: str
    reason: str


@dataclass(frozen=True, slots=True)
class Authenticate:
    """Asks to verify the identity that the peer claims. The driver answers with `Authenticated` or `Denied`."""

    connection: str
    router: Router


@dataclass(frozen=True, slots=True)
class SetTimer:
    name: str
    at: float


@dataclass(frozen=True, slots=True)
class Report:
    """Something an operator should know; nothing is asked of the driver but to tell."""

    code: str
    reason: str
    stranger: bool = False  # caused by who came in and was not admitted: as often as strangers like


# Effects from links to the machine that owns them.


@dataclass(frozen=True, slots=True)
class LinkUp:
    peer: Router
    incarnation: int
    latency_ms: float


@dataclass(frozen=True, slots=True)
class LinkDown:
    peer: Router
    reason: str
    silent: bool = False  # nothing was heard for as long as a link's silence is borne


@dataclass(frozen=True, slots=True)
class NobodyThere:
    """A dial was refused by the machine at the address: nothing listens there at present."""

    address: str


@dataclass(frozen=True, slots=True)
class LatencyChanged:
    peer: Router
    latency_ms: float


@dataclass(frozen=True, slots=True)
class Arrived:
    """A message that is not about the link itself."""

    peer: Router
    message: ControlMessage


LinkEffect: TypeAlias = (
    Dial
    | Transmit
    | CloseLink
    | Authenticate
    | SetTimer
    | Report
    | LinkUp
    | LinkDown
    | NobodyThere
    | LatencyChanged
    | Arrived
)
