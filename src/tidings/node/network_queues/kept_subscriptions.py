"""Durable and shared subscriptions at their home, for brokers elsewhere: made, adopted from a former home, deleted.

AttachSubscriber ──► open ──► consumer ──on disk──► ConsumerAttached
AdoptSubscription ──► open ──known everywhere──► SettlementsSynced        a former home sends no more than this
HandOverMessage ──► store, marked ──on disk──► SettlementsSynced
"""

from tidings.delivery.mailbox import PERHAPS_SEEN, Mailbox, SlowPolicy
from tidings.errors import CodecError, SecurityError, TidingsError
from tidings.model.selector import Selector
from tidings.node.clients.interest_spread import InterestSpread
from tidings.node.clients.subscription_plan import SubscriptionPlan, destination_of, kind_of
from tidings.node.completions import AnswerSettled, OfferMessage
from tidings.node.encoded_message import ID, expires_ms_of
from tidings.node.mailboxes.durable_access import MayManage, forget_subscription, open_subscription
from tidings.node.mailboxes.journal import Journal
from tidings.node.mailboxes.mailbox_service import MailboxService
from tidings.node.message_filter import accepts
from tidings.node.network.store_and_forward import StoreAndForward
from tidings.node.network_queues.records import AdoptSubscription, AttachSubscriber, ForgetSubscription, HandOverMessage


class KeptSubscriptions:
    def __init__(
        self, service: MailboxService, journal: Journal, spread: InterestSpread, transit: StoreAndForward
    ) -> None:
        self._service, self._journal, self.spread, self._transit = service, journal, spread, transit

    def attach(self, record: AttachSubscriber) -> Mailbox:
        """The mailbox to attach to."""
        topic = destination_of(record.predicate)
        mailbox = open_subscription(self._service, plan_of(record), may_manage=_only(topic if record.manages else None))
        mailbox.policy = next((one for one in SlowPolicy if one.value == record.policy), SlowPolicy.PUSH_BACK)
        return mailbox

    def adopt(self, record: AdoptSubscription, answer: AnswerSettled) -> None:
        """Keep it from now on; answer when all brokers know that."""
        if record.name not in self._service.mailboxes.by_name:
            self._service.mailboxes.make(record.name, kind_of(record.name), record.predicate, record.asked)

        def known(error: TidingsError | None) -> None:
            if error is None:  # otherwise it is asked again
                self._journal.then_changed(answer)

        self.spread.wait(known)

    def hand_over(self, record: HandOverMessage, answer: AnswerSettled) -> None:
        """A message of a former home, which may have come here too; without a mailbox nobody wants it any more."""
        mailbox = self._service.mailboxes.by_name.get(record.name)
        if mailbox is not None:
            self._transit.published_again(record.message[ID])  # a copy that is on its way here comes marked
            expires_ms = expires_ms_of(record.message)
            offer = self._service.prepare(record.message, [mailbox], expires_ms, tries=PERHAPS_SEEN)
            self._journal.then(OfferMessage(offer, None))
        self._journal.then(answer)

    def forget(self, record: ForgetSubscription, answer: AnswerSettled) -> None:
        def may_manage(topic: str) -> bool:
            if not record.manages:
                reason = (
                    f"{record.name!r} is kept by another broker: to delete it from here takes `manage` for all topics"
                )
                raise SecurityError("E_FORBIDDEN", reason)
            return True

        forget_subscription(self._service, record.name, may_manage, look=record.look)
        self._journal.then_changed(answer)


def plan_of(record: AttachSubscriber) -> SubscriptionPlan:
    topic, filter = destination_of(record.predicate), Selector(record.selector)
    try:
        kind = kind_of(record.name)
    except ValueError:
        raise CodecError("E_CONTROL_KIND", f"no subscription is called {record.name!r}", position=0) from None
    asked, formerly = record.asked, record.formerly
    return SubscriptionPlan(topic, record.predicate, kind, record.name, accepts(filter), asked, filter.text, formerly)


def _only(topic: str | None) -> MayManage:
    return lambda asked: asked == topic
