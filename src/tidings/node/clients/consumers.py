"""Handles requests of consumers: credit, and verdicts on the messages that were delivered to them."""

from collections.abc import Sequence
from typing import assert_never

from tidings.delivery.mailbox import Consumer, Mailbox, MailboxKind
from tidings.errors import UsageError
from tidings.node.clients.answer_batch import AnswerBatch
from tidings.node.clients.session import Connection, DirectSubscription, MailboxSubscription, Returned
from tidings.node.completions import AnswerRequest
from tidings.node.mailboxes.dead_letters import REJECTED
from tidings.node.mailboxes.journal import Journal
from tidings.node.mailboxes.mailbox_service import MailboxService
from tidings.node.network_queues.attached_mailbox import AttachedMailbox, SyncBarrier
from tidings.node.plane import Plane
from tidings.node.requests import Ack, Credit, Done, Drain, Failed, Verdict
from tidings.node.settings import NodeSettings


class Consumers:
    def __init__(
        self, plane: Plane, service: MailboxService, journal: Journal, outbox: AnswerBatch, settings: NodeSettings
    ) -> None:
        self._plane, self._service, self._journal = plane, service, journal
        self._outbox, self._settings = outbox, settings

    # --- how many -------------------------------------------------------------------------------------------------

    def credit(self, now_ms: int, client: Connection, request: Credit) -> None:
        subscription = client.subscription(request.subscription)
        match subscription:
            case DirectSubscription(sink):
                self._plane.credit(sink, request.more, now_ms)
            case MailboxSubscription(mailbox, consumer):
                consumer.credit = min(consumer.credit + request.more, self._settings.credit_max)
                self._maybe_touch(mailbox, consumer)
            case _:
                assert_never(subscription)

    def drain(self, client: Connection, request: Drain) -> None:
        subscription = client.subscription(request.subscription)
        match subscription:
            case DirectSubscription(sink):
                left = self._plane.take_credit(sink)
                self._outbox.answer(client.number, Done(request.receipt, {"credit": left}))
            case MailboxSubscription(AttachedMailbox() as mailbox, _):
                mailbox.drain(request.receipt)
            case MailboxSubscription(mailbox, consumer):
                consumer.draining = request.receipt
                self._service.touch(mailbox)
            case _:
                assert_never(subscription)

    def drained(self, mailbox: Mailbox) -> None:
        """The mailbox has given out what it could: tell those who asked, unless bytes or room are still waited for."""
        for consumer in mailbox.consumers:
            emptied = not mailbox.backlog or consumer.credit == 0 or consumer.room_bytes > 0
            if consumer.draining and consumer.active and not mailbox.wanted and emptied:
                if consumer.output is not None:
                    consumer.output.drained()
                else:
                    self._outbox.answer(consumer.connection, Done(consumer.draining, {"credit": consumer.credit}))
                consumer.credit = consumer.draining = 0

    def _maybe_touch(self, mailbox: Mailbox, consumer: Consumer) -> None:
        """It can take more, if there is any, or be told that there is none."""
        if mailbox.backlog or consumer.draining or mailbox.kind is MailboxKind.ATTACHED:
            self._service.touch(mailbox)

    # --- what has become of them ----------------------------------------------------------------------------------

    def acknowledged(
        self, now_ms: int, client: Connection, number: int, tags: Sequence[int], *, cumulative: bool
    ) -> None:
        """The usual acknowledgement: done with these, in no transaction. Call `Node.turn` after the last one."""
        subscription = client.subscriptions.get(number)
        if not isinstance(subscription, MailboxSubscription) or max(tags, default=0) > subscription.mailbox.given:
            try:
                self.ack(now_ms, client, Ack(number, tuple(tags), cumulative))  # which says what is wrong
            except UsageError as error:
                self._outbox.answer(client.number, Failed(0, error.alone()))
            return
        mailbox, consumer = subscription.mailbox, subscription.consumer
        mailbox.taken_ms = now_ms
        done = mailbox.acknowledge(consumer, consumer.up_to(max(tags)) if cumulative and tags else tags)
        self._service.finished(mailbox, done)
        if consumer.window:
            consumer.credit += len(done)
        self._maybe_touch(mailbox, consumer)

    def ack(self, now_ms: int, client: Connection, request: Ack) -> None:
        mailbox, consumer, tags = self._resolve(client, request)
        mailbox.taken_ms = now_ms
        held = len(consumer.unacknowledged)
        match request.verdict:
            case Verdict.DONE if request.session:
                transaction = client.transaction(request.session)
                transaction.acks.append((mailbox, mailbox.reject(consumer, tags)))
            case Verdict.DONE:
                self._service.finished(mailbox, mailbox.acknowledge(consumer, tags))
            case verdict:
                waits = client.transaction(request.session).returned if request.with_commit else None
                avoids = consumer.avoids if request.elsewhere else None
                returned = Returned(verdict, mailbox, mailbox.reject(consumer, tags), avoids)
                if waits is None:
                    give_back(self._service, returned)
                else:
                    waits.append(returned)
        if consumer.window:
            consumer.credit += held - len(consumer.unacknowledged)
        self._maybe_touch(mailbox, consumer)
        if request.receipt:
            answer = AnswerRequest(client.number, Done(request.receipt))
            if isinstance(mailbox, AttachedMailbox) and mailbox.unsynced:
                mailbox.sync(SyncBarrier(answer, 1))
            else:
                self._journal.then_changed(answer)

    def _resolve(self, client: Connection, request: Ack) -> tuple[Mailbox, Consumer, list[int]]:
        subscription = client.subscription(request.subscription)
        if not isinstance(subscription, MailboxSubscription):
            raise UsageError("E_ACK_NOT_WANTED", "messages of this subscription need no acknowledgement")
        consumer = subscription.consumer
        tags = list(request.tags)
        last = max(tags, default=0)
        if last > subscription.mailbox.given:
            raise UsageError("E_ACK_UNKNOWN", f"no delivery {last} was made to this subscription")
        if request.cumulative and tags:
            tags = consumer.up_to(last)
        return subscription.mailbox, consumer, tags


def give_back(service: MailboxService, returned: Returned) -> None:
    """Apply the verdict of the consumer now."""
    mailbox, places = returned.mailbox, returned.places
    if returned.avoids is not None:
        returned.avoids.update(place.seq for place in places)
    if returned.verdict is Verdict.RETRY or not service.mailboxes.is_open(mailbox):
        service.retry(mailbox, places)
        return
    if returned.verdict is Verdict.DEAD and isinstance(mailbox, AttachedMailbox):
        mailbox.bury(places)
    elif returned.verdict is Verdict.DEAD:
        service.dead_letters.bury(mailbox, places, REJECTED)
    else:
        for place in places:
            mailbox.put_back(place)
    service.touch(mailbox)  # so that this turn writes what is ready
