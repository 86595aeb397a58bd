"""Durable subscriptions whose subscribers' rules have changed: they go on, and keep what waits in them.

What fills a durable subscription is what its subscriber asked for, as far as a rule's selector lets it through. The
mailbox remembers the first apart (`asked`): if that is the same as before, only the rule is another, and the mailbox is
filled by the new one from now on. What it held before is for the consumer to refuse (`SubscriptionPlan.accepts`); it
stays, and comes should a rule admit it again.

A shared one belongs to all its subscribers, whose rules may differ. None of them takes away what another may have: only
a user that may manage its topic, and is its only user, narrows it. For everybody else it collects all that was asked
for, and each gets what their rule admits, as from a queue.

What a store keeps means what it meant, also when the language of selectors has got another version since. If the
subscriber comes back with the same text, the mailbox keeps what waits and is filled by the text's present meaning.
"""

from collections.abc import Callable

from tidings.delivery.mailbox import Mailbox, MailboxKind
from tidings.errors import SecurityError, UsageError
from tidings.node.clients.subscription_plan import SubscriptionPlan, destination_of, durable_parts
from tidings.node.mailboxes.mailbox_service import MailboxService
from tidings.node.mailboxes.mailbox_table import MailboxTable

MayManage = Callable[[str], bool]  # a topic


def open_subscription(service: MailboxService, wanted: SubscriptionPlan, may_manage: MayManage) -> Mailbox:
    """The mailbox of a durable or shared subscription: the one that there is, if it is the same; otherwise a new one,
    also in its place."""
    assert wanted.kind is not None
    mailbox = service.mailboxes.by_name.get(wanted.name)
    if mailbox is None:
        return service.mailboxes.make(wanted.name, wanted.kind, wanted.predicate, wanted.asked)
    if mailbox.consumers and wanted.kind is MailboxKind.DURABLE:
        raise busy(mailbox)
    if fits(service.mailboxes, mailbox, wanted, may_manage):
        return mailbox
    if mailbox.consumers:
        raise UsageError("E_SHARED_DIFFERS", f"{wanted.name!r} is in use with another topic or selector")
    check_may_end(service.mailboxes, mailbox, may_manage)
    # As in JMS, a changed topic or selector means: forget the old subscription, start a new one.
    service.remove(mailbox)
    return service.mailboxes.make(wanted.name, wanted.kind, wanted.predicate, wanted.asked)


def forget_subscription(service: MailboxService, name: str, may_manage: MayManage, *, look: bool) -> None:
    """Delete a durable subscription, or (`look`) only raise an error if there is none."""
    mailbox = service.mailboxes.by_name.get(name)
    if mailbox is None:
        raise UsageError("E_DURABLE_UNKNOWN", f"there is no durable subscription {_title(name)!r}")
    if look:
        return
    if mailbox.consumers:
        raise busy(mailbox)
    check_may_end(service.mailboxes, mailbox, may_manage)
    service.remove(mailbox)


def busy(mailbox: Mailbox) -> UsageError:
    return UsageError("E_DURABLE_BUSY", f"durable subscription {_title(mailbox.name)!r} has a subscriber already")


def _title(name: str) -> str:
    return durable_parts(name)[1] if name.startswith("durable:") else name.partition(":")[2]


def check_may_end(mailboxes: MailboxTable, mailbox: Mailbox, may_manage: MayManage) -> None:
    """A subscription shared by several users is ended by one that may manage its topic."""
    if mailbox.kind is not MailboxKind.SHARED_DURABLE:
        return
    topic = destination_of(mailboxes.predicate(mailbox))
    if not may_manage(topic):
        raise SecurityError("E_FORBIDDEN", f"to replace or delete {mailbox.name!r} takes `manage` for {topic}")


def fits(mailboxes: MailboxTable, mailbox: Mailbox, wanted: SubscriptionPlan, may_manage: MayManage) -> bool:
    """True if the mailbox is, or was adapted to be, the one that is asked for; False: it is another subscription."""
    predicate, alone = mailboxes.predicate(mailbox), mailbox.kind is MailboxKind.DURABLE
    if not wanted.asked:
        return predicate == wanted.predicate
    if predicate == wanted.predicate:
        if not mailbox.asked or alone:  # empty: of a store that did not keep it
            mailboxes.refit(mailbox, predicate, wanted.asked)
        return True
    if (mailbox.asked or predicate) not in (wanted.asked, wanted.formerly):
        return False
    narrowed = alone or (not mailbox.consumers and may_manage(wanted.destination))
    mailboxes.refit(mailbox, wanted.predicate if narrowed else wanted.asked, wanted.asked)
    return True
