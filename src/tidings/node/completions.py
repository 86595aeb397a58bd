"""Defines what happens after a write: one record for each thing that waits for a batch, in a union, `Completion`.

The journal keeps completions beside the records they wait for and returns them when the fate of the batch is known;
`completer.Completer` carries them out, in that order. The process may end between the write and the completions: then
none of them happens, and the next process starts from the records alone. So each record here says what happens when the
batch is durable, what when it was refused, and what a restart finds instead.

    journal.then(completion) ──► batch ──► durable ──► complete(completion, None)
                                   │  └──► refused ──► complete(completion, error)
                                   └─────► crash   ──► recovery from the records

The records that one persistent message needs are named tuples: they are made faster than frozen dataclasses.
"""

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from tidings.delivery.backlog import BacklogPosition
from tidings.delivery.mailbox import NEW, Consumer, Mailbox, Tries
from tidings.delivery.retained import RetainedMailbox
from tidings.errors import TidingsError
from tidings.node.clients.idempotent_commit import LastCommit
from tidings.node.clients.session import Connection, MailboxSubscription, OpenTransaction
from tidings.node.network.copy_numbers import CopyNumber, CopyNumbers
from tidings.node.requests import Commit, Done, Subscribe
from tidings.overlay.effects import Router

# --- parts of completions -----------------------------------------------------------------------------------------


class Offer(NamedTuple):
    """A message for mailboxes; its fields are the parameters of `MailboxService.offer`."""

    seq: int
    message: bytes
    mailboxes: list[Mailbox]
    stored: bool  # it has a record in the batch
    expires_ms: int = 0
    publisher: int | None = None
    tries: Tries = NEW
    more: tuple["Offer", ...] = ()  # for the mailboxes that one record cannot name


class PublicationStored(NamedTuple):
    """A message of a transaction, or an event: for subscribers here and, perhaps, at other brokers."""

    now_ms: int
    connection: int | None  # None: a client that has left
    message: bytes
    offer: Offer
    enters: bool  # it is not persistent, and goes to other brokers


class Copy(NamedTuple):
    """A persistent message that came by a link."""

    hops: int
    tag: int
    numbers: CopyNumbers
    expires_ms: int
    message: bytes


class ConfirmPublication(NamedTuple):
    """Confirm a message to its publisher, or refuse it. Crash: the publisher has no answer and sends it again; if it
    was written, it is offered twice, the second time marked."""

    connection: int
    receipt: int


@dataclass(frozen=True, slots=True)
class FinishMove:
    """A message is in another queue now: it ends in this mailbox, or is put back. Crash: its end here and its record
    there are in one batch, so it is in one of the two."""

    mailbox: Mailbox
    place: BacklogPosition
    cause: str  # of death; empty: it was moved by request


Outcome: TypeAlias = ConfirmPublication | FinishMove  # of a message that mailboxes are offered


# --- messages of clients ------------------------------------------------------------------------------------------


class OfferMessage(NamedTuple):
    """Durable: mailboxes are offered the message, then its outcome. Refused: the outcome alone. Crash: a message that
    was written waits in its mailboxes."""

    offer: Offer
    outcome: Outcome | None


class ConfirmRepeat(NamedTuple):
    """A message was sent again while its first copy was on its way to disk: it shares the fate of that one, whatever
    becomes of its own batch. Crash: nobody has an answer, and the publisher sends it again."""

    message_id: bytes
    outcome: Outcome | None


class ConfirmEntry(NamedTuple):
    """Durable: confirm a message that was published here, for mailboxes here and for other brokers; but refuse it if it
    rests on a copy that was refused, or if mailboxes here could not take it. Refused: refuse it. Crash: as for
    `ConfirmPublication`."""

    connection: int
    receipt: int
    copy_of: bytes = b""  # id of a message that was sent before and must be safe
    refusal: TidingsError | None = None


class KeepDelayed(NamedTuple):
    """Durable: a message waits for its time, and is confirmed. Refused: refuse it. Crash: it waits if it was written;
    the publisher has no answer and sends it again."""

    connection: int
    receipt: int
    entry: tuple[int, int]  # its time and number
    message_id: bytes


class PublishDelayed(NamedTuple):
    """Durable: a message whose time has come is published. Refused: it is tried again later. Crash: its end as a
    delayed message was in one batch with its records for mailboxes and other brokers."""

    now_ms: int
    seq: int
    publication: PublicationStored


class PublishEvent(NamedTuple):
    """Durable: publish an event of a type and confirm it. Refused: refuse it. Crash: what is persistent was written for
    mailboxes and for other brokers in one batch; the rest is lost, and the publisher has no answer."""

    receipt: int
    publication: PublicationStored


@dataclass(frozen=True, slots=True)
class CommitTransaction:
    """Durable: its acknowledgements end messages, its publications are made, the commit is answered. Refused: all of it
    is rolled back. Crash: all that is persistent was written in one batch, with the number of the commit if it has a
    key; a commit that is tried again is answered as a duplicate."""

    client: Connection
    request: Commit
    transaction: OpenTransaction
    publications: tuple[PublicationStored, ...]
    delayed: tuple[tuple[int, int], ...]  # messages to be delivered later: time and number
    key: str  # of `Once`; empty: none
    before: LastCommit  # its number before this commit


# --- requests of clients ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AnswerRequest:
    """Durable: this answer. Refused: `Failed`, with the same receipt. Crash: the client has no answer, and what it
    asked for has happened if it was written."""

    connection: int
    done: Done


@dataclass(frozen=True, slots=True)
class ActivateConsumer:
    """Durable: the consumer gets messages, and the subscription is answered. Refused: the subscription is undone, with
    the mailbox that was made for it. Crash: the mailbox may be there, and what waits in it counts as perhaps seen."""

    client: Connection
    request: Subscribe
    subscription: MailboxSubscription
    made: bool  # the mailbox, for this subscription alone


@dataclass(frozen=True, slots=True)
class ConfirmUnsubscribe:
    """Durable or refused: the subscription has ended and is answered so. Crash: messages that it had acknowledged may
    come again."""

    connection: int
    receipt: int


@dataclass(frozen=True, slots=True)
class AnswerRetention:
    """Durable: a retained subscription was made or released; answered with the offsets that it has then. Refused:
    `Failed`. Crash: as for `AnswerRequest`."""

    connection: int
    receipt: int
    mailbox: RetainedMailbox


@dataclass(frozen=True, slots=True)
class AnswerRecall:
    """Durable or refused: the client's records as they are then. Crash: the client asks again."""

    client: Connection
    receipt: int
    name: str


# --- between brokers ----------------------------------------------------------------------------------------------


class ForwardMessage(NamedTuple):
    """Durable: the message waits to be sent to these routers. Refused: nothing; the sender is informed by another
    completion of the batch. Crash: it waits, read from the store."""

    seq: int
    message: bytes
    numbers: CopyNumbers
    expires_ms: int
    hops: int


class CarryEvent(NamedTuple):
    """Durable: the event waits to be given to the routing scheme. Refused: nothing, as for `ForwardMessage`. Crash: it
    waits, read from the store."""

    seq: int
    message: bytes


class ReleaseEvent(NamedTuple):
    """Durable: copies of an event for brokers that were away wait in the store, so that its custody ends. Refused: the
    routing scheme carries it again. Crash: the same, if it was still in custody."""

    tag: bytes


class RememberEntry(NamedTuple):
    """Durable: nothing. Refused: the id of an event that was published here is forgotten. Crash: the id is in the
    notes of the batch."""

    message_id: bytes


class DeliverRelayed(NamedTuple):
    """Durable: a message of another broker goes to subscribers here. Refused: its id and number are forgotten. Crash:
    it waits in durable mailboxes, and its id and number are known; direct subscribers were lost with the process."""

    now_ms: int
    offer: Offer
    number: CopyNumber | None


class HoldCopy(NamedTuple):
    """Durable: a copy is held for subscribers that may come back. Refused: its id and number are forgotten. Crash: it
    is held, and its id and number are known."""

    seq: int
    message_id: bytes
    number: CopyNumber | None


class ReleaseCopy(NamedTuple):
    """Durable: a copy that was held goes to subscribers here. Refused: it is held again. Crash: it waits in durable
    mailboxes; direct subscribers were lost with the process."""

    now_ms: int
    seq: int  # under which it was held
    offer: Offer


class MoveWaiting(NamedTuple):
    """Durable: a message for a broker that was forgotten is in a queue, and waits for that broker no longer. Refused:
    it waits again. Crash: the same, and it may be in the queue as well."""

    seq: int  # under which it waited
    router: Router
    offer: Offer


@dataclass(frozen=True, slots=True)
class ForwardQueued:
    """Durable: a message leaves a queue whose home is another broker, and is sent there. Refused: it waits in the queue
    again. Crash: its end in the queue and its record for the home are in one batch, so it is in one of the two."""

    mailbox: Mailbox
    place: BacklogPosition
    forward: ForwardMessage


@dataclass(frozen=True, slots=True)
class ActivateRemoteConsumer:
    """Durable or refused: a consumer at another broker gets messages. Crash: the mailbox may be there, and what waits
    in it counts as perhaps seen; the other broker attaches the consumer again."""

    mailbox: Mailbox
    consumer: Consumer


@dataclass(frozen=True, slots=True)
class AnswerSettled:
    """Durable: the other broker hears that what its consumers settled, or what it asked for, is on disk. Refused: it
    hears that. Crash: its channel is reset, so it knows that this is not sure."""

    router: Router
    life: int  # of the channel
    token: int


class TakeRelay(NamedTuple):
    """Durable: the neighbour gets `Taken` for the copy. Refused: the copy waits here, and what came behind it by
    the same link is withdrawn from the journal; or the link is given up, if no store can keep the copy. Crash: the
    neighbour sends it again, and it is known by its id."""

    link: int  # by the plane's number
    life: int  # of the link: numbers of links are used again; also the group in the journal
    order: int  # in which it was tried
    copy: Copy


class ConfirmHandOver(NamedTuple):
    """Durable: the routing scheme learns that an event is safe here. Refused: that it is not, and comes again. Crash:
    it comes again, and is known by its id."""

    type: str
    tag: bytes


class ConfirmCopy(NamedTuple):
    """Durable: a copy of a message that is known here is taken, but refused if that message was refused meanwhile.
    Refused: refused. Crash: as for `then`."""

    now_ms: int
    message_id: bytes
    number: CopyNumber | None
    then: TakeRelay | ConfirmHandOver


RelayCompletion: TypeAlias = TakeRelay | ConfirmHandOver
NetworkCompletion: TypeAlias = (
    ForwardMessage
    | CarryEvent
    | ReleaseEvent
    | RememberEntry
    | DeliverRelayed
    | HoldCopy
    | ReleaseCopy
    | MoveWaiting
    | ForwardQueued
    | ActivateRemoteConsumer
    | AnswerSettled
    | TakeRelay
    | ConfirmHandOver
    | ConfirmCopy
)
Completion: TypeAlias = (
    OfferMessage
    | ConfirmRepeat
    | ConfirmEntry
    | PublishEvent
    | KeepDelayed
    | PublishDelayed
    | CommitTransaction
    | AnswerRequest
    | ActivateConsumer
    | ConfirmUnsubscribe
    | AnswerRetention
    | AnswerRecall
    | NetworkCompletion
)
