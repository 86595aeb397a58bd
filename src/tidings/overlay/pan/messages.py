"""Messages between Pan nodes, and effects that a node asks of its driver."""

from dataclasses import dataclass
from typing import TypeAlias

from tidings.overlay.effects import ControlMessage, SetTimer
from tidings.overlay.pan.ids import Contact


@dataclass(frozen=True, slots=True)
class Routed(ControlMessage):
    """On its way to the node closest to the key. With a token it is a request, which the origin wants answered."""

    key: int
    origin: Contact
    payload: bytes
    token: int = 0
    hops: int = 0


@dataclass(frozen=True, slots=True)
class PanReply(ControlMessage):
    token: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class Enter(ControlMessage):
    """Somebody joins: routed towards its id; who passes it on tells the newcomer of others, from this row on."""

    newcomer: Contact
    row: int = 0
    hops: int = 0


@dataclass(frozen=True, slots=True)
class Others(ControlMessage):
    """Nodes that the sender knows. `closest`: it is the end of an Enter's way, and these are its leaves.
    `introduction`: the sender has just joined, and these are all it knows."""

    contacts: tuple[Contact, ...]
    closest: bool = False
    introduction: bool = False


@dataclass(frozen=True, slots=True)
class PanAsk(ControlMessage):
    """Whom do you know in this row of your table? -1: your leaf set."""

    row: int


@dataclass(frozen=True, slots=True)
class PanHello(ControlMessage):
    """The sender has you in its tables."""

    latency_ms: float | None  # as far as it has measured
    address: str = ""


@dataclass(frozen=True, slots=True)
class Probe(ControlMessage):
    token: int


@dataclass(frozen=True, slots=True)
class ProbeEcho(ControlMessage):
    token: int


@dataclass(frozen=True, slots=True)
class Beat(ControlMessage):
    """Heartbeat with the sender's leaves; `answer`: the receiver is to send its own back."""

    leaves: tuple[Contact, ...]
    answer: bool


@dataclass(frozen=True, slots=True)
class Depart(ControlMessage):
    """The sender leaves; these are its leaves, who become each other's."""

    leaves: tuple[Contact, ...]


@dataclass(frozen=True, slots=True)
class Spare(ControlMessage):
    """The sender does not need its link to you. When both have said so, the one who made it ends it."""


PanMessage: TypeAlias = (
    Routed | PanReply | Enter | Others | PanAsk | PanHello | Probe | ProbeEcho | Beat | Depart | Spare
)

# Effects.


@dataclass(frozen=True, slots=True)
class PanTell:
    """To a node that need not be a neighbour. What cannot be brought there comes back by `Pan.failed`."""

    to: Contact
    message: PanMessage


@dataclass(frozen=True, slots=True)
class PanArrived:
    """This node is the closest to the key. With a token, the origin waits for `Pan.reply`."""

    key: int
    payload: bytes
    origin: Contact
    last_hop: Contact | None  # None: it was this node's own
    hops: int
    token: int = 0


@dataclass(frozen=True, slots=True)
class PanAnswered:
    token: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class Unanswered:
    """Nobody answered a request in time."""

    token: int


@dataclass(frozen=True, slots=True)
class Joined:
    pass


@dataclass(frozen=True, slots=True)
class Missed:
    """A neighbour is gone that did not say that it leaves."""

    contact: Contact


@dataclass(frozen=True, slots=True)
class Changed:
    """The tables have changed: neighbours may have come or gone, routes may differ."""


PanEffect: TypeAlias = PanTell | PanArrived | PanAnswered | Unanswered | Joined | Missed | Changed | SetTimer
