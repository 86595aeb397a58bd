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

from tidings.delivery.mailbox import Mailbox, MailboxKind
from tidings.node.clients.session import Principal
from tidings.node.clients.subscription_plan import SubscriptionPlan
from tidings.node.mailboxes.mailbox_table import MailboxTable


def fits(mailboxes: MailboxTable, mailbox: Mailbox, wanted: SubscriptionPlan, principal: Principal) -> bool:
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
    narrowed = alone or (not mailbox.consumers and principal.may("manage", wanted.destination))
    mailboxes.refit(mailbox, wanted.predicate if narrowed else wanted.asked, wanted.asked)
    return True
