"""Carries out what clients ask for: subscriptions, credit, acknowledgements, transactions."""

from collections.abc import Callable, Sequence
from typing import assert_never

from tidings.delivery.mailbox import Consumer, Mailbox, MailboxKind
from tidings.errors import LimitError, SecurityError, TidingsError, UsageError
from tidings.model.destination import Destination
from tidings.node.dead_letters import REJECTED
from tidings.node.encoded import expires_ms_of
from tidings.node.journal import Journal
from tidings.node.once import Once
from tidings.node.outbox import Outbox
from tidings.node.plane import Plane
from tidings.node.post_office import PostOffice
from tidings.node.queues import Queues
from tidings.node.refitting import fits
from tidings.node.requests import (
    Ack,
    AckMode,
    Begin,
    Browse,
    Commit,
    Credit,
    DeskRequest,
    Done,
    Drain,
    Failed,
    Forget,
    Identify,
    Leave,
    MakeTemporary,
    Move,
    Purge,
    RemoveTemporary,
    Rollback,
    Subscribe,
    Sync,
    Unsubscribe,
    Verdict,
)
from tidings.node.session import (
    Connection,
    DirectSubscription,
    MailboxSubscription,
    Returned,
    Subscription,
    Transaction,
)
from tidings.node.settings import Settings
from tidings.node.subscribing import (
    CLIENT_ID_MAX,
    Plan,
    destination_of,
    durable_name,
    is_temporary,
    plan,
    queue_predicate,
    shared_durable_name,
)


class Desk:
    def __init__(
        self,
        plane: Plane,
        office: PostOffice,
        journal: Journal,
        outbox: Outbox,
        settings: Settings,
        abroad: Callable[[int, int, bytes], Callable[[], None] | None],
    ) -> None:
        self._plane = plane
        self._office = office
        self._journal = journal
        self._outbox = outbox
        self._settings = settings
        self.once = Once()
        self.queues = Queues(plane, office, journal, outbox)
        self.transacted_bytes = 0  # of messages in open transactions
        self._abroad = abroad  # a message for other brokers: what sends it once it is safe, if that is left to do

    def carry_out(self, now_ms: int, client: Connection, request: DeskRequest) -> None:
        match request:
            case Ack():  # the most frequent ones first
                self._ack(now_ms, client, request)
            case Credit():
                self._credit(now_ms, client, request)
            case Subscribe():
                self._subscribe(now_ms, client, request)
            case Unsubscribe():
                self._unsubscribe(client, request)
            case Forget():
                self._forget(client, request)
            case Drain():
                self._drain(client, request)
            case Identify():
                self._identify(client, request)
            case MakeTemporary():
                self._make_temporary(client, request)
            case RemoveTemporary():
                self._remove_temporary(client, request)
            case Begin():
                self._begin(client, request)
            case Commit():
                self._commit(now_ms, client, request)
            case Rollback():
                self._roll_back(self._end_transaction(client, request.session))
                self._outbox.answer(client.number, Done(request.receipt))
            case Sync():
                self._done_when_written(client, request.receipt, all=True)
            case Leave():
                self._end_all(client)
                self._done_when_written(client, request.receipt, all=True)
            case Browse():
                self.queues.browse(now_ms, client, request)
            case Purge():
                self.queues.purge(client, request)
            case Move():
                self.queues.move(now_ms, client, request)
            case _:
                assert_never(request)

    def lost(self, client: Connection) -> None:
        """The connection is gone: so are its transactions and subscriptions."""
        for transaction in client.transactions.values():
            self.transacted_bytes -= transaction.bytes
            with self._outbox.told("a transaction could not be rolled back"):
                self._roll_back(transaction)
        self._end_all(client)
        for mailbox in client.temporary.values():
            with self._outbox.told("a temporary queue could not be removed"):
                self._office.remove(mailbox)

    def _end_all(self, client: Connection) -> None:
        for subscription in client.subscriptions.values():
            with self._outbox.told("a subscription could not be ended"):
                self._end(subscription)
        client.subscriptions.clear()

    def _end(self, subscription: Subscription) -> None:
        match subscription:
            case DirectSubscription(sink):
                self._plane.unsubscribe(sink)
            case MailboxSubscription(mailbox, consumer):
                self._office.detach(mailbox, consumer)

    # --- subscriptions --------------------------------------------------------------------------------------------

    def _subscribe(self, now_ms: int, client: Connection, request: Subscribe) -> None:
        if request.subscription in client.subscriptions:
            raise UsageError("E_SUBSCRIPTION_EXISTS", f"subscription {request.subscription} exists on this connection")
        if len(client.subscriptions) >= self._settings.subscriptions_max:
            limit = self._settings.subscriptions_max
            raise LimitError("E_SUBSCRIPTIONS", f"a connection has at most {limit} subscriptions")
        if request.policy.value not in self._settings.slow_policies:
            raise UsageError("E_POLICY", f"this broker does not offer the policy {request.policy.value}")
        wanted = plan(request, client.client_id, client.number, client.principal)
        if request.no_local and wanted.kind is not None:
            raise UsageError("E_NO_LOCAL", "no_local is for topics, with ack auto, neither durable nor shared")
        if wanted.kind is None:
            sink = self._plane.subscribe(
                client.number,
                request.subscription,
                wanted.predicate,
                credit=-1 if request.paused else 0 if request.window else request.credit,
                policy=request.policy.value,
                backlog_bytes_max=self._settings.sink_bytes_max,
                no_local=request.no_local,
            )
            client.subscriptions[request.subscription] = DirectSubscription(sink, request.destination, request.selector)
            self._outbox.answer(client.number, Done(request.receipt))
        else:
            self._subscribe_mailbox(now_ms, client, request, wanted, wanted.kind)

    def _subscribe_mailbox(
        self, now_ms: int, client: Connection, request: Subscribe, wanted: Plan, kind: MailboxKind
    ) -> None:
        new = wanted.name not in self._office.by_name
        mailbox = self._mailbox(client, request, wanted, kind)
        asked = min(request.credit or self._settings.credit_default, self._settings.credit_max)
        consumer = Consumer(
            client.number,
            request.subscription,
            0 if request.paused else asked,
            accepts=wanted.accepts,
            window=request.window,
            settles=request.window and request.ack is not AckMode.CLIENT,
        )
        subscription = MailboxSubscription(mailbox, consumer, request.destination, request.selector)
        mailbox.policy = request.policy
        mailbox.taken_ms = now_ms
        self._office.attach(mailbox, consumer)
        client.subscriptions[request.subscription] = subscription

        def active() -> None:
            self._office.activate(mailbox, consumer)
            self._outbox.answer(client.number, Done(request.receipt))

        def undo(error: TidingsError) -> None:
            if client.subscriptions.get(request.subscription) is subscription:
                del client.subscriptions[request.subscription]
            self._office.detach(mailbox, consumer)
            if new and kind is not MailboxKind.QUEUE and self._office.is_open(mailbox) and not mailbox.consumers:
                self._office.remove(mailbox)
            self._outbox.answer(client.number, Failed(request.receipt, error))

        self._journal.then_changed(active, undo)

    def _unsubscribe(self, client: Connection, request: Unsubscribe) -> None:
        subscription = client.subscription(request.subscription)
        if request.release and isinstance(subscription, MailboxSubscription):
            consumer = subscription.consumer
            for place in subscription.mailbox.reject(consumer, list(consumer.unacknowledged)):
                subscription.mailbox.put_back(place)
            self._office.touch(subscription.mailbox)
        self._end(subscription)
        del client.subscriptions[request.subscription]

        def ended(_: TidingsError | None = None) -> None:
            self._outbox.answer(client.number, Done(request.receipt))

        self._journal.then_changed(ended, ended)  # so it is, even if a crash makes what was acknowledged come again

    def _mailbox(self, client: Connection, request: Subscribe, wanted: Plan, kind: MailboxKind) -> Mailbox:
        """The mailbox to attach to: an existing one if it is the same, otherwise a new one."""
        mailbox = self._office.by_name.get(wanted.name)
        if mailbox is None:
            if kind is MailboxKind.TEMPORARY:
                if not request.temporary:
                    raise UsageError("E_QUEUE_TEMPORARY", f"there is no temporary {wanted.name}, or no longer")
                client.temporary[wanted.name] = self._office.make(wanted.name, kind, wanted.predicate)
                return client.temporary[wanted.name]
            return self._office.make(wanted.name, kind, wanted.predicate, wanted.asked)
        if kind is MailboxKind.TEMPORARY and client.temporary.get(wanted.name) is not mailbox:
            # Replies are for who asked. Rules cannot say so: those who reply need a rule for all such queues.
            raise SecurityError("E_FORBIDDEN", f"only the connection that made {wanted.name} may receive from it")
        if mailbox.consumers and kind is MailboxKind.DURABLE:
            raise UsageError("E_DURABLE_BUSY", f"durable subscription {request.durable!r} has a subscriber already")
        is_queue = kind in (MailboxKind.QUEUE, MailboxKind.TEMPORARY)
        if is_queue or fits(self._office, mailbox, wanted, client.principal):
            return mailbox
        if mailbox.consumers:
            raise UsageError("E_SHARED_DIFFERS", f"{wanted.name!r} is in use with another topic or selector")
        self._check_own(client, mailbox)
        # As in JMS, a changed topic or selector means: forget the old subscription, start a new one.
        self._office.remove(mailbox)
        return self._office.make(wanted.name, kind, wanted.predicate, wanted.asked)

    def _forget(self, client: Connection, request: Forget) -> None:
        own = durable_name(client.client_id, request.durable)
        mailbox = self._office.by_name.get(shared_durable_name(request.durable) if request.shared else own)
        if mailbox is None:
            raise UsageError("E_DURABLE_UNKNOWN", f"there is no durable subscription {request.durable!r}")
        if request.look:
            self._outbox.answer(client.number, Done(request.receipt))
            return
        if mailbox.consumers:
            raise UsageError("E_DURABLE_BUSY", f"durable subscription {request.durable!r} has a subscriber")
        self._check_own(client, mailbox)
        self._office.remove(mailbox)
        self._done_when_written(client, request.receipt)

    def _check_own(self, client: Connection, mailbox: Mailbox) -> None:
        """What several share ends by a hand that may manage its topic, whatever else that hand may."""
        if mailbox.kind is not MailboxKind.SHARED_DURABLE:
            return
        topic = destination_of(self._office.predicate(mailbox))
        if not client.principal.may("manage", topic):
            raise SecurityError(
                "E_FORBIDDEN",
                f"{client.principal.name} may not replace or delete {mailbox.name!r}: it may not manage {topic}",
            )

    def _credit(self, now_ms: int, client: Connection, request: Credit) -> None:
        match client.subscription(request.subscription):
            case DirectSubscription(sink):
                self._plane.credit(sink, request.more, now_ms)
            case MailboxSubscription(mailbox, consumer):
                consumer.credit = min(consumer.credit + request.more, self._settings.credit_max)
                self._maybe_touch(mailbox, consumer)

    def _maybe_touch(self, mailbox: Mailbox, consumer: Consumer) -> None:
        """It can take more, if there is any, or be told that there is none."""
        if mailbox.backlog or consumer.draining:
            self._office.touch(mailbox)

    def _drain(self, client: Connection, request: Drain) -> None:
        match client.subscription(request.subscription):
            case DirectSubscription(sink):
                left = self._plane.take_credit(sink)
                self._outbox.answer(client.number, Done(request.receipt, {"credit": left}))
            case MailboxSubscription(mailbox, consumer):
                consumer.draining = request.receipt
                self._office.touch(mailbox)

    def drained(self, mailbox: Mailbox) -> None:
        """The mailbox has given out what it could: tell those who asked, unless bytes or room are still waited for."""
        for consumer in mailbox.consumers:
            emptied = not mailbox.backlog or consumer.credit == 0 or consumer.room_bytes > 0
            if consumer.draining and consumer.active and not mailbox.wanted and emptied:
                self._outbox.answer(consumer.connection, Done(consumer.draining, {"credit": consumer.credit}))
                consumer.credit = consumer.draining = 0

    # --- who it is, and what is its own -----------------------------------------------------------------------------

    def _identify(self, client: Connection, request: Identify) -> None:
        if client.subscriptions:
            raise UsageError("E_IDENTIFY_LATE", "a client says who it is before it subscribes")
        if len(client.client_id) + len(request.client_id) > CLIENT_ID_MAX:
            raise LimitError(
                "E_CLIENT_ID", f"a client's id has at most {CLIENT_ID_MAX} characters, its user's name included"
            )
        client.client_id += request.client_id
        self._outbox.answer(client.number, Done(request.receipt))

    def _make_temporary(self, client: Connection, request: MakeTemporary) -> None:
        queue = Destination.parse(request.queue)
        name = str(queue)
        if not is_temporary(queue):
            raise UsageError("E_QUEUE_TEMPORARY", f"{name!r} is not the name of a temporary queue")
        if not client.principal.may("subscribe", name):
            raise SecurityError("E_FORBIDDEN", f"{client.principal.name} may not subscribe to {name}")
        if name in self._office.by_name:
            raise UsageError("E_QUEUE_EXISTS", f"there is a temporary queue {queue.name!r} already")
        client.temporary[name] = self._office.make(name, MailboxKind.TEMPORARY, queue_predicate(queue))
        self._outbox.answer(client.number, Done(request.receipt))

    def _remove_temporary(self, client: Connection, request: RemoveTemporary) -> None:
        mailbox = client.temporary.pop(str(Destination.parse(request.queue)), None)
        if mailbox is None:
            raise UsageError("E_QUEUE_TEMPORARY", f"no temporary queue {request.queue!r} of this connection")
        self._office.remove(mailbox)
        self._outbox.answer(client.number, Done(request.receipt))

    # --- acknowledgements -----------------------------------------------------------------------------------------

    def acknowledged(
        self, now_ms: int, client: Connection, number: int, tags: Sequence[int], *, cumulative: bool
    ) -> None:
        """The usual acknowledgement: done with these, in no transaction. Call `Node.turn` after the last one."""
        subscription = client.subscriptions.get(number)
        if not isinstance(subscription, MailboxSubscription) or max(tags, default=0) > subscription.mailbox.given:
            try:
                self._ack(now_ms, client, Ack(number, tuple(tags), cumulative))  # which says what is wrong
            except UsageError as error:
                self._outbox.answer(client.number, Failed(0, error.alone()))
            return
        mailbox, consumer = subscription.mailbox, subscription.consumer
        mailbox.taken_ms = now_ms
        done = mailbox.acknowledge(consumer, consumer.up_to(max(tags)) if cumulative and tags else tags)
        self._office.finished(mailbox, done)
        if consumer.window:
            consumer.credit += len(done)
        self._maybe_touch(mailbox, consumer)

    def _ack(self, now_ms: int, client: Connection, request: Ack) -> None:
        mailbox, consumer, tags = self._resolve(client, request)
        mailbox.taken_ms = now_ms
        held = len(consumer.unacknowledged)
        match request.verdict:
            case Verdict.DONE if request.session:
                transaction = client.transaction(request.session)
                transaction.acks.append((mailbox, mailbox.reject(consumer, tags)))
            case Verdict.DONE:
                self._office.finished(mailbox, mailbox.acknowledge(consumer, tags))
            case verdict:
                waits = client.transaction(request.session).returned if request.with_commit else None
                avoids = consumer.avoids if request.elsewhere else None
                returned = Returned(verdict, mailbox, mailbox.reject(consumer, tags), avoids)
                if waits is None:
                    self._give_back(returned)
                else:
                    waits.append(returned)
        if consumer.window:
            consumer.credit += held - len(consumer.unacknowledged)
        self._maybe_touch(mailbox, consumer)
        if request.receipt:
            self._done_when_written(client, request.receipt)

    def _give_back(self, returned: Returned) -> None:
        mailbox, places = returned.mailbox, returned.places
        if returned.avoids is not None:
            returned.avoids.update(place.seq for place in places)
        if returned.verdict is Verdict.RETRY or not self._office.is_open(mailbox):
            self._office.retry(mailbox, places)
            return
        if returned.verdict is Verdict.DEAD:
            self._office.dead_letters.bury(mailbox, places, REJECTED)
        else:
            for place in places:
                mailbox.put_back(place)
        self._office.touch(mailbox)  # and so this turn writes what there is to write

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

    # --- transactions ---------------------------------------------------------------------------------------------

    def _begin(self, client: Connection, request: Begin) -> None:
        if request.session in client.transactions:
            raise UsageError("E_TRANSACTION_OPEN", f"session {request.session} is in a transaction already")
        if len(client.transactions) >= self._settings.transactions_max:
            limit = self._settings.transactions_max
            raise LimitError("E_TRANSACTIONS", f"a connection has at most {limit} open transactions")
        client.transactions[request.session] = Transaction()
        self._plane.transacted(client.number, request.session, True)
        self._outbox.answer(client.number, Done(request.receipt))

    def _commit(self, now_ms: int, client: Connection, request: Commit) -> None:
        transaction = self._end_transaction(client, request.session)
        key = request.key and f"{client.principal.name}/{request.key}"  # everybody has keys of their own
        before = self.once.number(key)
        try:
            if transaction.failure is not None:
                raise transaction.failure
            if key and self.once.done(key, request.number):
                self._roll_back(transaction)
                self._outbox.answer(client.number, Done(request.receipt, {"duplicate": True}))
                return
            # All that can go wrong comes first: what is in the journal can no longer be taken back.
            place, late = self._office.mailboxes_for, request.drops_late
            targets = [place(one, self._plane.match(one), drops_late=late) for one in transaction.messages]
        except TidingsError:
            self._failed(client, request, transaction)
            raise
        offers = [
            self.prepare(now_ms, client.number, message, mailboxes)
            for message, mailboxes in zip(transaction.messages, targets, strict=True)
        ]
        for mailbox, places in transaction.acks:
            self._office.finished_if_written(mailbox, [place.seq for place in places])
        if key:
            self._journal.message(self.once.begin(key, request.number, self._office.take_seq()), 0)

        def apply() -> None:
            self.once.finished(key)
            for mailbox, places in transaction.acks:
                for place in places:
                    mailbox.finish(place.seq)
            for returned in transaction.returned:
                self._give_back(returned)
            for offer in offers:
                offer()
            self._outbox.answer(client.number, Done(request.receipt))

        def undo(error: TidingsError) -> None:
            if key:
                self.once.failed(key, before)
            self._failed(client, request, transaction)
            self._outbox.answer(client.number, Failed(request.receipt, error))

        self._journal.then(apply, undo)

    def _failed(self, client: Connection, request: Commit, transaction: Transaction) -> None:
        if request.or_leaves:  # or it would be given again what it had, and that would count as one more try
            self._end_all(client)
        self._roll_back(transaction)

    def prepare(self, now_ms: int, connection: int, message: bytes, mailboxes: list[Mailbox]) -> Callable[[], None]:
        """Journal the message if need be; returns what publishes it once that is safe."""
        _, offer = self._office.prepare(message, mailboxes, expires_ms_of(message), connection)
        send = self._abroad(now_ms, connection, message)

        def publish() -> None:
            self._plane.publish(message, now_ms, connection)
            offer()
            if send is not None:
                send()

        return publish

    def _roll_back(self, transaction: Transaction) -> None:
        for mailbox, places in transaction.acks:
            self._office.retry(mailbox, places)
        for returned in transaction.returned:
            self._office.retry(returned.mailbox, returned.places)

    def _end_transaction(self, client: Connection, session: int) -> Transaction:
        transaction = client.transaction(session)
        del client.transactions[session]
        self.transacted_bytes -= transaction.bytes
        self._plane.transacted(client.number, session, False)
        return transaction

    def _done_when_written(self, client: Connection, receipt: int, *, all: bool = False) -> None:
        (self._journal.then if all else self._journal.then_changed)(
            lambda: self._outbox.answer(client.number, Done(receipt)),
            lambda error: self._outbox.answer(client.number, Failed(receipt, error)),
        )
