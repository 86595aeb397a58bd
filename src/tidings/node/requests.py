"""What clients ask of a node and what it answers, whatever protocol carries it. Closed unions of frozen records."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from tidings.delivery.mailbox import SlowPolicy
from tidings.errors import TidingsError
from tidings.model.message_id import MessageId
from tidings.model.values import Value


class AckMode(Enum):
    AUTO = "auto"
    DUPS_OK = "dups-ok"
    CLIENT = "client"


@dataclass(frozen=True, slots=True)
class Subscribe:
    receipt: int
    subscription: int
    destination: str
    selector: str = ""
    ack: AckMode = AckMode.AUTO
    durable: str = ""
    shared: str = ""
    credit: int = 0
    policy: SlowPolicy = SlowPolicy.PUSH_BACK
    no_local: bool = False
    session: int = 0
    window: bool = False  # credit comes back by itself: with acknowledgements, without them as messages are written
    temporary: bool = False  # of a queue: it goes with the connection


@dataclass(frozen=True, slots=True)
class Unsubscribe:
    """End one subscription of this connection."""

    receipt: int
    subscription: int


@dataclass(frozen=True, slots=True)
class Forget:
    """Delete a durable subscription and what waits for it."""

    receipt: int
    durable: str


@dataclass(frozen=True, slots=True)
class Credit:
    subscription: int
    more: int


class Verdict(Enum):
    """What a consumer says of messages it was given."""

    DONE = 0
    RETRY = 2
    DEAD = 4


@dataclass(frozen=True, slots=True)
class Ack:
    subscription: int
    tags: tuple[int, ...]
    cumulative: bool = False
    verdict: Verdict = Verdict.DONE
    session: int = 0
    receipt: int = 0

    @classmethod
    def of(cls, subscription: int, flags: int, tags: Sequence[int], session: int) -> "Ack":
        """As a frame says it: bit 0 of the flags means cumulative, the others are the verdict's value."""
        verdict = Verdict.DEAD if flags & Verdict.DEAD.value else Verdict(flags & Verdict.RETRY.value)
        return cls(subscription, tuple(tags), bool(flags & 1), verdict, session)


@dataclass(frozen=True, slots=True)
class Begin:
    receipt: int
    session: int


@dataclass(frozen=True, slots=True)
class Commit:
    receipt: int
    session: int


@dataclass(frozen=True, slots=True)
class Rollback:
    receipt: int
    session: int


@dataclass(frozen=True, slots=True)
class Sync:
    """Answer once all that was asked for before is on disk where it must be."""

    receipt: int


@dataclass(frozen=True, slots=True)
class Trace:
    """Where did this message go? `everywhere`: ask brokers beside its route too."""

    receipt: int
    message: MessageId
    everywhere: bool = False


DeskRequest: TypeAlias = Subscribe | Unsubscribe | Forget | Credit | Ack | Begin | Commit | Rollback | Sync
Request: TypeAlias = DeskRequest | Trace


@dataclass(frozen=True, slots=True)
class Done:
    """The request with this receipt number is carried out."""

    receipt: int
    fields: Mapping[str, Value] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Failed:
    """The request with this receipt number was refused; nothing of it happened."""

    receipt: int
    error: TidingsError


@dataclass(frozen=True, slots=True)
class Accepted:
    """These publications are accepted, and on disk where they must be."""

    receipts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Refused:
    """This publication was not accepted."""

    receipt: int
    error: TidingsError


Answer: TypeAlias = Done | Failed | Accepted | Refused
