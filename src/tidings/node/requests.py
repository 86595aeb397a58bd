"""Requests of clients and the answers of the node, for all protocols. Closed unions of frozen records."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from tidings.delivery.backlog import BacklogPosition
from tidings.delivery.mailbox import SlowPolicy
from tidings.errors import TidingsError
from tidings.model.event_type import EventType
from tidings.model.message_id import MessageId
from tidings.model.values import Value


class AckMode(Enum):
    AUTO = "auto"
    DUPS_OK = "dups-ok"
    CLIENT = "client"


class SubscribeWait(Enum):
    """Place at which a subscription is in force when it, or Sync, is answered."""

    BROKER = "broker"
    NETWORK = "network"


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
    paused: bool = False  # no credit at first, whatever `credit` says
    window: bool = False  # credit is renewed: with acknowledgements, without them as messages are written
    temporary: bool = False  # of a temporary queue: make it if it is not there
    type: str = ""  # in the place of a destination: an event type, whose subtypes count too
    exclusive: bool = False  # of a queue or shared: the other consumers stand by while this one is there
    wait: SubscribeWait = SubscribeWait.BROKER


@dataclass(frozen=True, slots=True)
class Unsubscribe:
    """End one subscription of this connection."""

    receipt: int
    subscription: int
    release: bool = False  # what it was given and has not acknowledged does not count as tried


@dataclass(frozen=True, slots=True)
class Forget:
    """Delete a durable subscription and what waits for it."""

    receipt: int
    durable: str
    shared: bool = False  # it is one that several share
    look: bool = False  # only say whether there is one
    owner: str | None = None  # the owner, if not the client that asks: a client's id, with its user's name


@dataclass(frozen=True, slots=True)
class Credit:
    subscription: int
    more: int


@dataclass(frozen=True, slots=True)
class Drain:
    """Deliver what waits now, then withdraw the remaining credit; the answer's `credit` says how much that was."""

    receipt: int
    subscription: int


@dataclass(frozen=True, slots=True)
class Identify:
    """The rest of the client's id, from one that could not name it when it logged in."""

    receipt: int
    client_id: str


@dataclass(frozen=True, slots=True)
class MakeTemporary:
    """A queue that lives as long as this connection, in memory only."""

    receipt: int
    queue: str


@dataclass(frozen=True, slots=True)
class RemoveTemporary:
    receipt: int
    queue: str


class Verdict(Enum):
    """A consumer's decision on messages that were delivered to it."""

    DONE = 0
    RETRY = 2
    DEAD = 4
    RELEASE = 8  # try again, and do not count this time


@dataclass(frozen=True, slots=True)
class Ack:
    subscription: int
    tags: tuple[int, ...]
    cumulative: bool = False
    verdict: Verdict = Verdict.DONE
    session: int = 0
    receipt: int = 0
    elsewhere: bool = False  # with RETRY and RELEASE: not to this consumer again
    with_commit: bool = False  # the verdict is part of the session's transaction, as DONE always is

    @classmethod
    def of(cls, subscription: int, flags: int, tags: Sequence[int], session: int) -> "Ack":
        """As a frame says it: bit 0 cumulative, 4 elsewhere, 5 with the commit, the others are the verdict's value."""
        if flags <= 1:  # the usual case
            return cls(subscription, tuple(tags), flags == 1, Verdict.DONE, session)
        said = (one for one in (Verdict.DEAD, Verdict.RETRY, Verdict.RELEASE) if flags & one.value)
        verdict = next(said, Verdict.DONE)
        elsewhere, with_commit = bool(flags & 16), bool(flags & 32)
        return cls(subscription, tuple(tags), bool(flags & 1), verdict, session, 0, elsewhere, with_commit)


@dataclass(frozen=True, slots=True)
class Begin:
    receipt: int
    session: int


@dataclass(frozen=True, slots=True)
class Commit:
    """With a key: only if this number is above the last one committed under that key."""

    receipt: int
    session: int
    key: str = ""
    number: int = 0
    digest: str = ""  # stored with the number
    drops_late: bool = False  # what is for temporary queues that are gone is dropped, and no reason to fail
    or_leaves: bool = False  # if it fails the connection ends: nothing is given to it any more


@dataclass(frozen=True, slots=True)
class Rollback:
    receipt: int
    session: int


@dataclass(frozen=True, slots=True)
class Sync:
    """Answer once all that was asked for before is on disk where it must be, and known where `wait` says."""

    receipt: int
    wait: SubscribeWait = SubscribeWait.BROKER


@dataclass(frozen=True, slots=True)
class Leave:
    """End all subscriptions of this connection at once, so that none is given what another had; answered as `Sync`."""

    receipt: int


@dataclass(frozen=True, slots=True)
class Browse:
    """Show what waits in a queue, as deliveries of this subscription number, which nothing else uses."""

    receipt: int
    subscription: int
    queue: str
    selector: str = ""
    after: BacklogPosition = BacklogPosition(0, 0)  # noqa: RUF009  # a tuple
    count: int = 0  # 0: as many as there are in a page


@dataclass(frozen=True, slots=True)
class Purge:
    """Delete what waits in a queue: all, or the messages with these tags."""

    receipt: int
    queue: str
    tags: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Move:
    """Move what waits in a queue to another one: a page of it, or the messages with these tags."""

    receipt: int
    queue: str
    target: str
    tags: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class CreateQueue:
    """Create a queue unless it exists; the answer's `created` tells which."""

    receipt: int
    queue: str


@dataclass(frozen=True, slots=True)
class DeleteQueue:
    """Delete a queue without consumers and messages; `force`: its messages too, and end its consumers' connections."""

    receipt: int
    queue: str
    force: bool = False


@dataclass(frozen=True, slots=True)
class EndConnection:
    """End the connection of another client, for administrators."""

    receipt: int
    connection: int


@dataclass(frozen=True, slots=True)
class Trace:
    """A request for the path of a message. `everywhere`: ask brokers beside its route too. `why`: ask all of them why
    this subscriber did or did not get it; `destination` and `attributes` are the message's, if they are known."""

    receipt: int
    message: MessageId
    everywhere: bool = False
    why: str = ""
    destination: str = ""
    attributes: str = ""  # a JSON object


@dataclass(frozen=True, slots=True)
class FindMessages:
    """A request for the messages with this value of an attribute, the newest `count` of a span of time."""

    receipt: int
    name: str
    value: Value
    first_ms: int = 0
    last_ms: int = 2**48 - 1
    count: int = 100


@dataclass(frozen=True, slots=True)
class Retain:
    """Keep messages to be read again; 0: whatever their age, as many bytes as the broker allows.

    `keep_limits`: age and bytes are for one that is made now; one that is there keeps its own.
    """

    receipt: int
    name: str
    destination: str
    selector: str = ""
    age_ms: int = 0
    bytes_max: int = 0
    keep_limits: bool = False
    last: bool = False  # only the last message of each topic


@dataclass(frozen=True, slots=True)
class ReadRetained:
    """The next messages after an offset, up to another if that is not 0; `strict`: an error if some are gone."""

    receipt: int
    name: str
    after: int = 0
    up_to: int = 0
    messages: int = 256
    bytes_max: int = 1 << 20
    selector: str = ""
    strict: bool = False
    destination: str = ""  # of last values: those of these topics; without a name the broker's own


@dataclass(frozen=True, slots=True)
class Release:
    """Retained messages up to an offset are not needed any more; `forget`: none is, and none shall be retained."""

    receipt: int
    name: str
    up_to: int = 0
    forget: bool = False


@dataclass(frozen=True, slots=True)
class Advertise:
    """The client will publish messages to this topic pattern that match this selector."""

    receipt: int
    number: int  # the client chooses it
    destination: str
    selector: str = ""


@dataclass(frozen=True, slots=True)
class AddType:
    """Make an event type known."""

    receipt: int
    event_type: EventType


@dataclass(frozen=True, slots=True)
class RemoveType:
    """Forget one that has no subtypes and that nobody uses."""

    receipt: int
    name: str


@dataclass(frozen=True, slots=True)
class ShowTypes:
    """A request for a type and its ancestors; without a name, for all types that are known here."""

    receipt: int
    name: str = ""


@dataclass(frozen=True, slots=True)
class AdvertiseType:
    """This connection will publish events of a type."""

    receipt: int
    name: str


@dataclass(frozen=True, slots=True)
class UnadvertiseType:
    receipt: int
    name: str


@dataclass(frozen=True, slots=True)
class Unadvertise:
    receipt: int
    number: int


@dataclass(frozen=True, slots=True)
class Keep:
    """Keep a record of this client under a name, an empty value deletes it; with a session, as part of its
    transaction."""

    receipt: int
    name: str
    value: bytes = b""
    session: int = 0


@dataclass(frozen=True, slots=True)
class Recall:
    """The records of this client whose names begin with this one and a slash; a field of the answer each."""

    receipt: int
    name: str


@dataclass(frozen=True, slots=True)
class Linger:
    """Keep something of this client, under a name, when its connection ends: its records and durable subscriptions
    called `name/…`, for a lifetime, and a will, which is published after a delay or at the end of the lifetime."""

    receipt: int
    name: str
    lifetime_ms: int = 0
    will: bytes = b""  # a message
    will_delay_ms: int = 0
    will_expiry_ms: int = 0  # from its publication on; 0: as the message says
    clear: bool = False  # the remains of an earlier connection end now


TypeDeskRequest: TypeAlias = AddType | RemoveType | ShowTypes | AdvertiseType | UnadvertiseType
DeskRequest: TypeAlias = (
    Subscribe
    | Unsubscribe
    | Forget
    | Credit
    | Drain
    | Identify
    | MakeTemporary
    | RemoveTemporary
    | Ack
    | Begin
    | Commit
    | Rollback
    | Sync
    | Leave
    | Browse
    | Purge
    | Move
    | CreateQueue
    | DeleteQueue
    | EndConnection
)
RecordRequest: TypeAlias = Keep | Recall | Linger
Request: TypeAlias = (
    DeskRequest
    | TypeDeskRequest
    | RecordRequest
    | Trace
    | FindMessages
    | Retain
    | ReadRetained
    | Release
    | Advertise
    | Unadvertise
)


@dataclass(frozen=True, slots=True)
class Done:
    """The request with this receipt number is carried out."""

    receipt: int
    fields: Mapping[str, Value] = field(default_factory=dict)
    retained: Sequence[tuple[int, bytes]] = ()  # messages with their offsets, of a read


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


Outcome: TypeAlias = Done | Failed | Refused  # of one request or publication
Answer: TypeAlias = Outcome | Accepted
