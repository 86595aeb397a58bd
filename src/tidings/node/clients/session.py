"""One client connection as the node knows it: its subscriptions, and its transactions."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from tidings.delivery.backlog import BacklogPosition
from tidings.delivery.mailbox import Consumer, Mailbox
from tidings.errors import TidingsError, UsageError
from tidings.model.event_type import TypeTree
from tidings.node.requests import Verdict


class Principal(Protocol):
    """An authenticated user and its permissions."""

    @property
    def name(self) -> str: ...

    def may(self, operation: str, destination: str) -> bool:
        """Operations: publish, subscribe, browse, manage, trace, advertise, define, monitor."""

    def restriction(self, destination: str, operation: str = "subscribe") -> str:
        """A selector that everything this one receives from there must fulfil; empty: none."""


@dataclass(frozen=True, slots=True)
class DirectSubscription:
    sink: int
    destination: str = ""  # as it was asked for, to be shown
    selector: str = ""


@dataclass(frozen=True, slots=True)
class MailboxSubscription:
    mailbox: Mailbox
    consumer: Consumer
    destination: str = ""
    selector: str = ""
    filter: str = ""  # what its consumer accepts of what waits: the rule's selector, of a queue with its own


Subscription: TypeAlias = DirectSubscription | MailboxSubscription


@dataclass(frozen=True, slots=True)
class Returned:
    """Messages that a consumer has answered for: assigned to no consumer until its verdict is applied."""

    verdict: Verdict
    mailbox: Mailbox
    places: list[BacklogPosition]
    avoids: set[int] | None = None  # of the consumer, if they are to go elsewhere


@dataclass(slots=True)
class OpenTransaction:
    """Sends and acknowledgements that happen together or not at all."""

    messages: list[bytes] = field(default_factory=list)
    acks: list[tuple[Mailbox, list[BacklogPosition]]] = field(default_factory=list)  # with nobody until its end
    returned: list[Returned] = field(default_factory=list)
    records: dict[str, bytes] = field(default_factory=dict)  # of the client, from the commit on
    bytes: int = 0
    failure: TidingsError | None = None  # the first thing that went wrong: commit will say so


@dataclass(slots=True, eq=False)
class Connection:
    number: int
    principal: Principal
    client_id: str
    subscriptions: dict[int, Subscription] = field(default_factory=dict)
    transactions: dict[int, OpenTransaction] = field(default_factory=dict)
    temporary: dict[str, Mailbox] = field(default_factory=dict)  # queues that end with it, by name
    advertised: dict[str, TypeTree] = field(default_factory=dict)  # event types that it publishes, with their ancestors
    implied: dict[str, list[Callable[[TidingsError | None], None]]] = field(
        default_factory=dict
    )  # types whose events wait
    gone: bool = False  # what was asked for on its behalf is to be undone

    def subscription(self, number: int) -> Subscription:
        try:
            return self.subscriptions[number]
        except KeyError:
            raise UsageError("E_SUBSCRIPTION_UNKNOWN", f"no subscription {number} on this connection") from None

    def spoil(self, session: int, error: TidingsError) -> None:
        """A message was refused: if its session is in a transaction, that can only be rolled back."""
        transaction = self.transactions.get(session)
        if transaction is not None and transaction.failure is None:
            transaction.failure = error

    def transaction(self, session: int) -> OpenTransaction:
        try:
            return self.transactions[session]
        except KeyError:
            raise UsageError("E_TRANSACTION_NONE", f"session {session} is not in a transaction") from None
