"""Seeded defects in durable and shared subscriptions of the network: the simulation of them must notice each."""

from typing import Any

from hardening.simulate.planting import Method, Mutant
from tidings.delivery.mailbox import NEW
from tidings.node.mailboxes.mailbox_service import MailboxService
from tidings.node.network_queues.hand_over import SubscriptionHandOver
from tidings.node.network_queues.homes import QueueHomes
from tidings.node.network_queues.kept_subscriptions import KeptSubscriptions
from tidings.node.network_queues.records import HandOverMessage

SUBSCRIPTIONS = {"world": "subscriptions"}


def _as_new(original: Method) -> Method:
    def hand_over(self: KeptSubscriptions, record: HandOverMessage, answer: Any) -> None:
        prepare = MailboxService.prepare

        def unmarked(self: MailboxService, message: bytes, mailboxes: Any, expires_ms: int = 0, **more: Any) -> Any:
            return prepare(self, message, mailboxes, expires_ms, tries=NEW)

        MailboxService.prepare = unmarked  # type: ignore[assignment]
        try:
            original(self, record, answer)
        finally:
            MailboxService.prepare = prepare  # type: ignore[method-assign]

    return hand_over


def _dropped(original: Method) -> Method:
    def deliver(self: SubscriptionHandOver, now_ms: int, attempts: Any, tags: list[int], messages: Any) -> None:
        for tag in tags:
            self._came(tag, None)

    return deliver


def _claimed(original: Method) -> Method:
    return lambda self, name: self._router if name in self.claimed else original(self, name)


SUBSCRIPTION_MUTANTS = (
    Mutant(
        "handed-over-unmarked",
        "what a former home of a subscription had moves as new",
        KeptSubscriptions,
        "hand_over",
        _as_new,
        seed=4,
        choices=SUBSCRIPTIONS,
    ),
    Mutant(
        "hand-over-dropped",
        "a former home of a subscription forgets what waits there",
        SubscriptionHandOver,
        "deliver",
        _dropped,
        seed=4,
        choices=SUBSCRIPTIONS,
    ),
    Mutant(
        "subscriptions-apart",
        "a broker that has claimed a subscription stays its home",
        QueueHomes,
        "home",
        _claimed,
        seed=4,
        choices=SUBSCRIPTIONS,
    ),
)
