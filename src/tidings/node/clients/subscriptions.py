"""Subscriptions of clients: made and ended, with the mailboxes that they need."""

from typing import assert_never

from tidings.delivery.mailbox import QUEUES, Consumer, Mailbox, MailboxKind
from tidings.errors import LimitError, SecurityError, TidingsError, UsageError
from tidings.kernel.forwarder import DirectSink
from tidings.model.destination import Destination
from tidings.node.clients.answer_batch import AnswerBatch
from tidings.node.clients.interest_spread import InterestSpread
from tidings.node.clients.session import Connection, DirectSubscription, MailboxSubscription, Subscription
from tidings.node.clients.subscription_plan import (
    SubscriptionPlan,
    durable_name,
    plan,
    shared_durable_name,
)
from tidings.node.completions import ActivateConsumer, AnswerRequest, ConfirmUnsubscribe
from tidings.node.mailboxes.durable_access import forget_subscription, open_subscription
from tidings.node.mailboxes.journal import Journal
from tidings.node.mailboxes.mailbox_service import MailboxService
from tidings.node.network_queues.attached_mailbox import AttachedMailbox
from tidings.node.network_queues.network_queues import NetworkQueues
from tidings.node.plane import Plane
from tidings.node.requests import AckMode, Done, Forget, Subscribe, SubscribeWait, Unsubscribe
from tidings.node.settings import NodeSettings

COMMON = {*QUEUES, MailboxKind.SHARED, MailboxKind.SHARED_DURABLE}  # several may consume them
EVERYTHING = ">"  # a user with `manage` for all topics may inspect the broker and remove subscriptions of others


class Subscriptions:
    def __init__(
        self,
        plane: Plane,
        service: MailboxService,
        journal: Journal,
        outbox: AnswerBatch,
        settings: NodeSettings,
        spread: InterestSpread | None,
        network_queues: NetworkQueues | None,
    ) -> None:
        self._network_queues = network_queues
        self._plane, self._service, self._mailboxes = plane, service, service.mailboxes
        self._journal, self._outbox, self._settings, self._spread = journal, outbox, settings, spread

    def subscribe(self, now_ms: int, client: Connection, request: Subscribe) -> None:
        if request.subscription in client.subscriptions:
            raise UsageError("E_SUBSCRIPTION_EXISTS", f"subscription {request.subscription} exists on this connection")
        if len(client.subscriptions) >= self._settings.subscriptions_max:
            limit = self._settings.subscriptions_max
            raise LimitError("E_SUBSCRIPTIONS", f"a connection has at most {limit} subscriptions")
        if request.policy.value not in self._settings.slow_policies:
            raise UsageError("E_POLICY", f"this broker does not offer the policy {request.policy.value}")
        wanted = plan(request, client.client_id, client.number, client.principal)
        if request.wait is SubscribeWait.NETWORK and self._spread is not None:
            self._spread.check(wanted.destination)
        if request.no_local and wanted.kind is not None:
            raise UsageError("E_NO_LOCAL", "no_local is for topics, with ack auto, neither durable nor shared")
        if request.exclusive and wanted.kind not in COMMON:
            raise UsageError("E_EXCLUSIVE", "exclusive is for queues and shared subscriptions")
        if wanted.kind is None:
            sink = DirectSink(
                client.number,
                request.subscription,
                wanted.predicate,
                credit=-1 if request.paused else 0 if request.window else request.credit,
                policy=request.policy.value,
                backlog_bytes_max=self._settings.sink_bytes_max,
                no_local=request.no_local,
            )
            number = self._plane.subscribe(sink)
            client.subscriptions[request.subscription] = DirectSubscription(
                number, request.destination, request.selector
            )
            self._in_force(client, request, None)
        else:
            self._subscribe_mailbox(now_ms, client, request, wanted, wanted.kind)

    def _subscribe_mailbox(
        self, now_ms: int, client: Connection, request: Subscribe, wanted: SubscriptionPlan, kind: MailboxKind
    ) -> None:
        new = wanted.name not in self._mailboxes.by_name
        mailbox = self._mailbox(client, request, wanted, kind)
        elsewhere = mailbox.kind is MailboxKind.ATTACHED
        asked = min(request.credit or self._settings.credit_default, self._settings.credit_max)
        consumer = Consumer(
            client.number,
            request.subscription,
            0 if request.paused else asked,
            accepts=None if elsewhere else wanted.accepts,
            window=request.window,
            settles=request.window and request.ack is not AckMode.CLIENT,
            exclusive=request.exclusive,
        )
        subscription = MailboxSubscription(mailbox, consumer, request.destination, request.selector, wanted.filter)
        mailbox.policy = request.policy
        mailbox.taken_ms = now_ms
        self._service.attach(mailbox, consumer)
        client.subscriptions[request.subscription] = subscription
        made = new and not elsewhere and kind is not MailboxKind.QUEUE
        completion = ActivateConsumer(client, request, subscription, made)
        if isinstance(mailbox, AttachedMailbox) and mailbox.plan is not None:
            assert self._network_queues is not None
            consumer.active = False  # so that nothing comes before the answer
            self._network_queues.confirm(mailbox, lambda error: self.complete(completion, error))
        else:
            self._journal.then_changed(completion)

    def complete(self, completion: ActivateConsumer, error: TidingsError | None) -> None:
        """A subscription with a mailbox is in force, or (`error`) is undone."""
        client, subscription, number = completion.client, completion.subscription, completion.request.subscription
        mailbox, consumer = subscription.mailbox, subscription.consumer
        if error is None:
            self._service.activate(mailbox, consumer)
        else:
            if client.subscriptions.get(number) is subscription:
                del client.subscriptions[number]
            self._service.detach(mailbox, consumer)
            if completion.made and self._mailboxes.is_open(mailbox) and not mailbox.consumers:
                self._service.remove(mailbox)
        self._in_force(client, completion.request, error)

    def _in_force(self, client: Connection, request: Subscribe, error: TidingsError | None) -> None:
        """A subscription is in force at this broker: answer it, or wait until it is in the whole network."""
        subscription = client.subscriptions.get(request.subscription)
        far = isinstance(subscription, MailboxSubscription) and subscription.mailbox.kind is MailboxKind.ATTACHED
        if error is None and request.wait is SubscribeWait.NETWORK and self._spread is not None and not far:
            self._spread.wait(lambda late: self._spread_out(client, request, subscription, late))
        else:
            self._outbox.answer_with(client.number, Done(request.receipt), error)

    def _spread_out(
        self, client: Connection, request: Subscribe, subscription: Subscription | None, error: TidingsError | None
    ) -> None:
        current = client.subscriptions.get(request.subscription)
        if error is not None and current is not None and current is subscription:
            self._end(current)
            del client.subscriptions[request.subscription]
        self._outbox.answer_with(client.number, Done(request.receipt), error)

    def _mailbox(self, client: Connection, request: Subscribe, wanted: SubscriptionPlan, kind: MailboxKind) -> Mailbox:
        """The mailbox to attach to: an existing one if it is the same, otherwise a new one."""
        if self._network_queues is not None:
            attached = self._network_queues.seat(client, request, wanted)
            if attached is not None:
                return attached
        if kind not in (MailboxKind.QUEUE, MailboxKind.TEMPORARY):
            return open_subscription(self._service, wanted, lambda topic: client.principal.may("manage", topic))
        mailbox = self._mailboxes.by_name.get(wanted.name)
        if mailbox is None:
            if kind is MailboxKind.TEMPORARY:
                if not request.temporary:
                    raise UsageError("E_QUEUE_TEMPORARY", f"there is no temporary {wanted.name}, or no longer")
                client.temporary[wanted.name] = self._mailboxes.make(
                    wanted.name, kind, wanted.predicate, maker=client.number
                )
                return client.temporary[wanted.name]
            return self._mailboxes.queue(Destination.parse(wanted.name), maker=client.number)
        if kind is MailboxKind.TEMPORARY and client.temporary.get(wanted.name) is not mailbox:
            # Replies are for who asked. Rules cannot say so: those who reply need a rule for all such queues.
            raise SecurityError("E_FORBIDDEN", f"only the connection that made {wanted.name} may receive from it")
        return mailbox

    def unsubscribe(self, client: Connection, request: Unsubscribe) -> None:
        subscription = client.subscription(request.subscription)
        if request.release and isinstance(subscription, MailboxSubscription):
            consumer = subscription.consumer
            for place in subscription.mailbox.reject(consumer, list(consumer.unacknowledged)):
                subscription.mailbox.put_back(place)
            self._service.touch(subscription.mailbox)
        self._end(subscription)
        del client.subscriptions[request.subscription]
        # So it is, even if a crash makes what was acknowledged come again.
        self._journal.then_changed(ConfirmUnsubscribe(client.number, request.receipt))

    def end_all(self, client: Connection) -> None:
        direct = [one.sink for one in client.subscriptions.values() if isinstance(one, DirectSubscription)]
        with self._outbox.told("subscriptions could not be ended"):
            self._plane.unsubscribe_all(direct)
        for subscription in client.subscriptions.values():
            if isinstance(subscription, MailboxSubscription):
                with self._outbox.told("a subscription could not be ended"):
                    self._end(subscription)
        client.subscriptions.clear()

    def _end(self, subscription: Subscription) -> None:
        match subscription:
            case DirectSubscription(sink):
                self._plane.unsubscribe(sink)
            case MailboxSubscription(mailbox, consumer):
                self._service.detach(mailbox, consumer)
            case _:
                assert_never(subscription)

    def forget(self, client: Connection, request: Forget) -> None:
        self._check_owner(client, request)
        own = durable_name(client.client_id if request.owner is None else request.owner, request.durable)
        name = shared_durable_name(request.durable) if request.shared else own
        answer = AnswerRequest(client.number, Done(request.receipt))

        def forgotten(error: TidingsError | None) -> None:
            self._outbox.answer_with(client.number, answer.done, error)

        if self._network_queues is not None and self._network_queues.forget(client, request, name, forgotten):
            return
        forget_subscription(self._service, name, lambda topic: client.principal.may("manage", topic), look=request.look)
        if request.look:
            forgotten(None)
        else:
            self._journal.then_changed(answer)

    def _check_owner(self, client: Connection, request: Forget) -> None:
        if request.owner is not None and not client.principal.may("manage", EVERYTHING):
            reason = f"{client.principal.name} may not manage {EVERYTHING}, which it takes to delete what is of others"
            raise SecurityError("E_FORBIDDEN", reason)
