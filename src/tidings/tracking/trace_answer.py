"""Answer of one broker to a question about a message: what brokers exchange, and clients and path searches read."""

from dataclasses import dataclass
from enum import Enum

from tidings.tracking.recording.losses import TraceReason


class TraceVerdict(Enum):
    HELD = "held"  # it passed here, unless this is a false positive
    ABSENT = "absent"  # it certainly did not
    UNKNOWN = "unknown"  # the records of that time are lost or gone


@dataclass(frozen=True, slots=True)
class Statement:
    """States that a subscriber got the message; `probability` is that of a false positive."""

    peer: str
    probability: float


@dataclass(frozen=True, slots=True)
class TraceAnswer:
    """A broker's knowledge about one message."""

    broker: int
    verdict: TraceVerdict
    probability: float = 0.0  # of claiming a message that did not pass
    neighbours: tuple[int, ...] = ()  # since the time of the message
    forwarded: tuple[int, ...] | None = None  # to these neighbours at most; None: not recorded
    subscribers: tuple[Statement, ...] = ()
    filters: int = 0  # how many were asked
    incomplete: bool = False  # records of that time may be lost: a peer that is not named may have got it all the same
    entered: bool = False  # it was published here, whatever broker its id names
    publisher: str = ""  # of messages that name this broker: who their publisher was (`publishers`); empty: not known
    reasons: tuple[TraceReason, ...] = ()  # about the subscriber that was asked about
    moved: bool = False  # of messages that name this broker: perhaps sent again at another one (`may_have_moved`)
