"""The mailboxes that are open, by name, and the sinks of the plane that fill them: made, found, refitted, closed."""

from collections.abc import Iterable, Sequence
from typing import TypeVar

from tidings.delivery.last_values import LastValues
from tidings.delivery.mailbox import QUEUES, Mailbox, MailboxKind
from tidings.delivery.message_cache import MessageCache
from tidings.delivery.policy import QueuePolicy, Quota, policy_of
from tidings.delivery.retained import RetainedMailbox, Retention
from tidings.delivery.store import MailboxAdded, MailboxRemoved, Recovered, check_record
from tidings.errors import LimitError, TidingsError, UsageError
from tidings.matching.indexed import IndexedMatcher
from tidings.model.destination import Destination, DestinationPattern
from tidings.node.clients.subscription_plan import is_temporary, queue_predicate
from tidings.node.clients.user_accounts import UserAccounts
from tidings.node.encoded_message import QUEUE, destination_of
from tidings.node.mailboxes.journal import Journal
from tidings.node.plane import Plane
from tidings.node.settings import NodeSettings
from tidings.routing.message_views import batch_of

M = TypeVar("M", bound=Mailbox)
NO_SINK = -1  # of a mailbox that is hidden


class MailboxTable:
    def __init__(self, plane: Plane, journal: Journal, message_cache: MessageCache, settings: NodeSettings) -> None:
        self.by_sink: dict[int, Mailbox] = {}
        self.by_name: dict[str, Mailbox] = {}
        self.retained: dict[int, RetainedMailbox] = {}  # by number
        self.sinks: dict[Mailbox, tuple[int, bytes]] = {}  # which sink fills it, by which predicate
        self.limited: dict[Mailbox, None] = {}  # queues with a policy
        self.policies: Sequence[QueuePolicy] = settings.policies
        self.accounts = UserAccounts(plane, settings.quotas)
        self.changes: list[tuple[bool, Mailbox]] = []  # (opened?, which), since they were last taken
        self._plane, self._journal, self._message_cache, self._settings = plane, journal, message_cache, settings
        self._hidden: dict[int, Mailbox] = {}  # by number
        self._hidden_filters = IndexedMatcher(in_doubt=True)  # the same
        self._old_sinks: list[tuple[int, Mailbox]] = []  # of mailboxes that have another; events may still name them
        self._next_number = 1

    def recover(self, recovered: Recovered) -> list[Mailbox]:
        """Open those that the store knows; they are empty."""
        self._next_number = recovered.last_mailbox + 1
        kinds = {kind.value for kind in MailboxKind}  # what the store keeps besides is not in a mailbox
        return [self._recovered(box) for box in recovered.mailboxes if box.kind in kinds]

    def take_number(self) -> int:
        """A number under which the store can keep something."""
        self._next_number += 1
        return self._next_number - 1

    # --- made and closed ------------------------------------------------------------------------------------------

    def make(
        self, name: str, kind: MailboxKind, predicate: bytes, asked: bytes = b"", *, maker: int | None = None
    ) -> Mailbox:
        """`maker`: the connection whose user the queue belongs to."""
        if name != str(self._settings.dead_letters):  # dead letters are never too many
            self._check_room()
        if maker is not None and kind in QUEUES:
            asked = self.accounts.user_of(maker).encode()
            self.accounts.admit_queue(asked.decode())
        record = MailboxAdded(self.take_number(), name, kind.value, predicate, asked)
        check_record(record)
        mailbox = self._open(self._mailbox(record.mailbox, name, kind, asked), predicate)
        if mailbox.durable:
            self._journal.change(record)
        return mailbox

    def make_retained(self, name: str, predicate: bytes, retention: Retention) -> RetainedMailbox:
        self._check_room()
        mailbox = self._open_retained(self.take_number(), name, predicate, retention)
        self._journal.change(MailboxAdded(mailbox.number, name, mailbox.kind.value, predicate, retention.to_bytes()))
        return mailbox

    def refit(self, mailbox: Mailbox, predicate: bytes, asked: bytes) -> None:
        """Fill it by another predicate from now on; what waits in it stays."""
        sink, before = self.sinks[mailbox]
        if (before, mailbox.asked) == (predicate, asked):
            return
        if predicate != before:
            new = self._plane.mailbox(predicate)
            self.by_sink[new] = mailbox
            self.sinks[mailbox] = (new, predicate)
            self._plane.unsubscribe(sink)
            self._old_sinks.append((sink, mailbox))
        mailbox.asked = asked
        self._journal.change(MailboxAdded(mailbox.number, mailbox.name, mailbox.kind.value, predicate, asked))

    def hide(self, mailbox: Mailbox) -> None:
        """Only persistent copies that were sent to this broker already come to it from now on."""
        sink, predicate = self.sinks[mailbox]
        if sink != NO_SINK:
            self._plane.unsubscribe(sink)
            self._old_sinks.append((sink, mailbox))
            self.sinks[mailbox] = (NO_SINK, predicate)
            self._hidden[mailbox.number] = mailbox
            self._hidden_filters.add_encoded(mailbox.number, predicate)

    def close(self, mailbox: Mailbox) -> None:
        """Nothing comes to it any more, and the store forgets it."""
        sink, _ = self.sinks.pop(mailbox)
        if self._hidden.pop(mailbox.number, None) is not None:
            self._hidden_filters.remove(mailbox.number)
        else:
            self._plane.unsubscribe(sink)
            del self.by_sink[sink]
        del self.by_name[mailbox.name]
        self.accounts.closed(mailbox)
        if mailbox.quota is not None:
            mailbox.quota.count_for(None)
        self.retained.pop(mailbox.number, None)
        self.limited.pop(mailbox, None)
        self.changes.append((False, mailbox))
        if mailbox.durable:
            self._journal.change(MailboxRemoved(mailbox.number))

    def apply(self, policies: Sequence[QueuePolicy]) -> None:
        """These policies hold from now on, and the quotas that accounts have. What waits is counted by number at once,
        by size as far as it is known."""
        self.policies = policies
        for mailbox in self.by_name.values():
            self._limit(mailbox)

    def _limit(self, mailbox: Mailbox) -> None:
        if mailbox.kind is not MailboxKind.QUEUE:
            return
        policy = policy_of(self.policies, Destination.parse(mailbox.name))
        own = 0 if policy is None else policy.deliveries_max
        mailbox.deliveries_max = own or self._settings.deliveries_max
        mailbox.single_active = policy is not None and policy.single_active
        mailbox.backoff = policy.backoff if policy is not None and policy.backoff.first_ms else None
        if mailbox.backoff is None:
            mailbox.rest_no_more()
        stored = self.accounts.stored(mailbox.owner)
        if policy is None and stored is not None:
            policy = QueuePolicy(DestinationPattern(Destination.parse(mailbox.name).name, True))  # only to count
        if policy is None:
            if mailbox.quota is not None:
                mailbox.quota.count_for(None)
            mailbox.quota = None
            self.limited.pop(mailbox, None)
        else:
            self.limited[mailbox] = None
            if mailbox.quota is None:
                mailbox.quota = Quota(policy)
            else:
                mailbox.quota.policy = policy
            mailbox.quota.count_for(stored)

    def forget_old_sinks(self) -> None:
        """About once a second: what they were still named by has come."""
        old, self._old_sinks = self._old_sinks, []
        for sink, mailbox in old:
            if self.by_sink.get(sink) is mailbox and self.sinks.get(mailbox, (None,))[0] != sink:
                del self.by_sink[sink]

    def take_changes(self) -> list[tuple[bool, Mailbox]]:
        changes, self.changes = self.changes, []
        return changes

    # --- found ----------------------------------------------------------------------------------------------------

    def is_open(self, mailbox: Mailbox) -> bool:
        return mailbox in self.sinks or mailbox.kind is MailboxKind.ATTACHED

    def predicate(self, mailbox: Mailbox) -> bytes:
        return self.sinks[mailbox][1]

    def queue(self, destination: Destination, *, may_make: bool = False, maker: int | None = None) -> Mailbox:
        """The queue of this name, made at first use if its policy allows that, or `may_make`."""
        name = str(destination)
        if (mailbox := self.by_name.get(name)) is not None:
            return mailbox
        if is_temporary(destination):
            raise UsageError("E_QUEUE_GONE", f"there is no temporary queue {destination.name!r}, or no longer")
        policy = policy_of(self.policies, destination)
        if not (may_make or policy is None or policy.create):
            raise UsageError(
                "E_QUEUE_UNKNOWN", f"there is no {name}, and its policy says that it is not made by being used"
            )
        return self.make(name, MailboxKind.QUEUE, queue_predicate(destination), maker=maker)

    def for_message(
        self, message: bytes, sinks: Iterable[int], *, drops_late: bool = False, maker: int | None = None
    ) -> list[Mailbox]:
        """The mailboxes of the message: those it matched, or the queue it is the first to name; none, if that is
        a temporary one that is gone, and `drops_late`."""
        mailboxes = [self.by_sink[sink] for sink in sinks if sink in self.by_sink]
        if not mailboxes and message[1] & QUEUE:
            queue = destination_of(message)
            if drops_late and is_temporary(queue) and str(queue) not in self.by_name:
                return []
            mailboxes = [self.queue(queue, maker=maker)]
        return mailboxes

    def for_copy(self, message: bytes, sinks: Iterable[int]) -> list[Mailbox]:
        """The same for what another broker has stored for this one: it cannot be refused."""
        try:
            mailboxes = [self.by_sink[sink] for sink in sinks if sink in self.by_sink]
            if self._hidden:
                mailboxes += [
                    self._hidden[number] for number in self._hidden_filters.match(batch_of(message))[1].tolist()
                ]
            if not mailboxes and message[1] & QUEUE:
                mailboxes = [self.queue(destination_of(message), may_make=True)]
        except TidingsError:
            mailboxes = [self.queue(self._settings.dead_letters, may_make=True)]
        return mailboxes

    # --- inside ---------------------------------------------------------------------------------------------------

    def _check_room(self) -> None:
        if len(self.by_name) >= self._settings.mailboxes_max:
            raise LimitError("E_MAILBOXES", f"at most {self._settings.mailboxes_max} queues and kept subscriptions")

    def _recovered(self, box: MailboxAdded) -> Mailbox:
        if box.kind == MailboxKind.RETAINED.value:
            return self._open_retained(box.mailbox, box.name, box.predicate, Retention.from_bytes(box.options))
        return self._open(self._mailbox(box.mailbox, box.name, MailboxKind(box.kind), box.options), box.predicate)

    def _mailbox(self, number: int, name: str, kind: MailboxKind, asked: bytes) -> Mailbox:
        mailbox = Mailbox(
            number,
            name,
            kind,
            self._message_cache,
            deliveries_max=self._settings.deliveries_max,
            page_messages=self._settings.pieces.load_messages,
        )
        if kind in QUEUES:
            mailbox.owner = asked.decode()
        else:
            mailbox.asked = asked
        return mailbox

    def _open_retained(self, number: int, name: str, predicate: bytes, retention: Retention) -> RetainedMailbox:
        kind = LastValues if retention.last else RetainedMailbox
        mailbox = self._open(kind(number, name, self._message_cache, retention), predicate)
        self.retained[number] = mailbox
        return mailbox

    def _open(self, mailbox: M, predicate: bytes) -> M:
        sink = self._plane.mailbox(predicate)
        self.by_sink[sink] = self.by_name[mailbox.name] = mailbox
        self.sinks[mailbox] = (sink, predicate)
        self.changes.append((True, mailbox))
        self.accounts.opened(mailbox)
        self._limit(mailbox)
        return mailbox
