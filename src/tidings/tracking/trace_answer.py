"""Questions about messages and the answers of one broker: what brokers exchange, and clients and searches read."""

from dataclasses import dataclass, field
from enum import Enum

from tidings.model.message_id import MessageId
from tidings.tracking.moments import Span
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
    between: Span | None = field(default=None, compare=False)  # when, by the broker's clock, as far as records tell


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
    between: Span | None = field(default=None, compare=False)  # when it passed, by this broker's clock


@dataclass(frozen=True, slots=True)
class KeyQuery:
    """Asks for messages with this value of an attribute, of a span of time. Text is looked for as what it reads as
    too, so that `4711` finds the number and the text."""

    name: str
    hashes: tuple[int, ...]
    first_ms: int = 0
    last_ms: int = 2**48 - 1
    count: int = 100  # of messages at most, the newest


@dataclass(frozen=True, slots=True)
class KeyAnswer:
    """A broker's knowledge: messages that were published there, oldest first."""

    broker: int
    messages: tuple[MessageId, ...] = ()
    more: bool = False  # older ones that `count` left out
    since_ms: int = 0  # of older messages some may be missing
    recorded: bool = True  # False: this broker does not record the attribute
