"""A broker as a machine without sockets, clock or disk.

Three doors in: `request` (what a client asks for), `message` (what the forwarding plane could not finish by itself:
messages for mailboxes and in transactions), and the completions of earlier effects (`persisted`, `loaded`). One door
out: each returns the effects its driver must carry out. The per-message path of plain messages never comes here; the
node only installs sinks for it in the forwarding plane.
"""

from collections.abc import Iterable
from typing import assert_never

from tidings.delivery.mailbox import Consumer, MailboxKind
from tidings.delivery.store import Recovered
from tidings.errors import LimitError, SecurityError, TidingsError, UsageError
from tidings.model.codec import decode_message
from tidings.model.destination import Destination
from tidings.node.effects import Effect, Load, Reply
from tidings.node.journal import Journal
from tidings.node.plane import Plane
from tidings.node.post_office import EXPIRES, PostOffice
from tidings.node.requests import (
    Accepted,
    Ack,
    AckMode,
    Answer,
    Begin,
    Commit,
    Credit,
    Done,
    Failed,
    Forget,
    Refused,
    Request,
    Rollback,
    Subscribe,
    Unsubscribe,
    Verdict,
)
from tidings.node.session import Connection, DirectSubscription, MailboxSubscription, Principal, Transaction
from tidings.node.settings import Settings
from tidings.node.subscribing import Plan, plan

QUEUE = 2  # a flag of docs/wire.md


class Node:
    def __init__(self, plane: Plane, settings: Settings) -> None:
        self.settings = settings
        self.connections: dict[int, Connection] = {}
        self._plane = plane
        self._journal = Journal()
        self.post_office = PostOffice(plane, self._journal, settings)
        self._effects: list[Effect] = []
        self._receipts: dict[int, list[int]] = {}
        self._loading: set[int] = set()
        self._held: set[int] = set()

    def recover(self, recovered: Recovered) -> None:
        self.post_office.recover(recovered)

    # --- doors in -------------------------------------------------------------------------------------------------

    def connected(self, connection: int, principal: Principal, client_id: str = "") -> None:
        self.connections[connection] = Connection(connection, principal, client_id)

    def lost(self, now_ms: int, connection: int) -> list[Effect]:
        """The connection is gone, with or without a farewell."""
        gone = self.connections.pop(connection, None)
        if gone is not None:
            for subscription in gone.subscriptions.values():
                self._end(subscription)
            self._held.discard(connection)
        return self._turn(now_ms)

    def request(self, now_ms: int, connection: int, request: Request) -> list[Effect]:
        client = self.connections[connection]
        try:
            self._carry_out(now_ms, client, request)
        except TidingsError as error:
            self._answer(client, Failed(getattr(request, "receipt", 0), error))
        return self._turn(now_ms)

    def message(
        self, connection: int, receipt: int, message: bytes, sinks: Iterable[int], expires_ms: int = 0
    ) -> None:
        """A message some mailboxes wait for. Call `flush` after the last one of a batch."""
        by_sink = self.post_office.by_sink
        mailboxes = [by_sink[sink] for sink in sinks if sink in by_sink]
        try:
            if not mailboxes and message[1] & QUEUE:
                mailboxes = [self.post_office.queue(destination_of(message))]
            self.post_office.accept(
                message,
                mailboxes,
                expires_ms=expires_ms,
                done=lambda: self._accepted(connection, receipt),
                failed=lambda error: self._refused(connection, receipt, error),
            )
        except TidingsError as error:
            self._refused(connection, receipt, error)
        self._maybe_hold(connection)

    def transacted(self, connection: int, session: int, receipt: int, message: bytes) -> None:
        """A message of a session in a transaction: it waits for the commit."""
        client = self.connections[connection]
        transaction = client.transaction(session)
        transaction.bytes += len(message)
        if transaction.bytes > self.settings.transaction_bytes_max:
            transaction.failure = LimitError(
                "E_TRANSACTION_SIZE", f"a transaction holds at most {self.settings.transaction_bytes_max} bytes"
            )
            transaction.messages.clear()
            self._refused(connection, receipt, transaction.failure)
            return
        transaction.messages.append(message)
        self._accepted(connection, receipt)

    def flush(self, now_ms: int) -> list[Effect]:
        return self._turn(now_ms)

    def persisted(self, now_ms: int, ticket: int, error: TidingsError | None) -> list[Effect]:
        self._journal.finished(ticket, error)
        return self._turn(now_ms)

    def loaded(self, now_ms: int, messages: dict[int, bytes]) -> list[Effect]:
        self._loading.difference_update(messages)
        self.post_office.loaded(messages)
        return self._turn(now_ms)

    def tick(self, now_ms: int) -> list[Effect]:
        """About once a second: expiry of what waits, and another try at what could not be written."""
        self.post_office.expire(now_ms)
        effects = self._turn(now_ms)
        effects += self._journal.flush(retry=True)
        return effects

    # --- requests -------------------------------------------------------------------------------------------------

    def _carry_out(self, now_ms: int, client: Connection, request: Request) -> None:
        match request:
            case Subscribe():
                self._subscribe(client, request)
            case Unsubscribe():
                self._end(client.subscription(request.subscription))
                del client.subscriptions[request.subscription]
                self._answer_when_written(client, request.receipt)
            case Forget():
                self._forget(client, request)
            case Credit():
                self._credit(client, request)
            case Ack():
                self._ack(client, request)
            case Begin():
                self._begin(client, request)
            case Commit():
                self._commit(now_ms, client, request)
            case Rollback():
                self._rollback(client, request.session)
                self._answer(client, Done(request.receipt))
            case _:
                assert_never(request)

    def _subscribe(self, client: Connection, request: Subscribe) -> None:
        if request.subscription in client.subscriptions:
            raise UsageError("E_SUBSCRIPTION_EXISTS", f"subscription {request.subscription} exists on this connection")
        if len(client.subscriptions) >= self.settings.subscriptions_max:
            raise LimitError("E_SUBSCRIPTIONS", f"at most {self.settings.subscriptions_max} subscriptions a connection")
        wanted = plan(request, client.client_id)
        if not client.principal.may("subscribe", wanted.destination):
            raise SecurityError("E_FORBIDDEN", f"{client.principal.name} may not subscribe to {wanted.destination}")
        if wanted.kind is None:
            sink = self._plane.subscribe(
                client.number,
                request.subscription,
                wanted.predicate,
                credit=request.credit,
                policy=request.policy.value,
                backlog_bytes_max=self.settings.sink_bytes_max,
                no_local=request.no_local,
            )
            client.subscriptions[request.subscription] = DirectSubscription(sink)
            self._answer(client, Done(request.receipt))
        else:
            self._subscribe_mailbox(client, request, wanted, wanted.kind)

    def _subscribe_mailbox(self, client: Connection, request: Subscribe, wanted: Plan, kind: MailboxKind) -> None:
        office = self.post_office
        mailbox = office.by_name.get(wanted.name)
        if mailbox is not None and mailbox.consumers and kind is MailboxKind.DURABLE:
            raise UsageError("E_DURABLE_BUSY", f"durable subscription {request.durable!r} has a subscriber already")
        if mailbox is not None and kind is not MailboxKind.QUEUE and office.predicate(mailbox) != wanted.predicate:
            if mailbox.consumers:
                raise UsageError("E_SHARED_DIFFERS", f"{request.shared!r} is shared with another topic or selector")
            office.remove(mailbox)  # JMS: a changed selector or topic starts the durable subscription anew
            mailbox = None
        mailbox = mailbox or office.make(wanted.name, kind, wanted.predicate)
        credit = min(request.credit or self.settings.credit_default, self.settings.credit_max)
        consumer = Consumer(client.number, request.subscription, credit, wanted.accepts)
        office.attach(mailbox, consumer)
        auto = request.ack is not AckMode.CLIENT
        client.subscriptions[request.subscription] = MailboxSubscription(mailbox, consumer, auto)
        self._answer_when_written(client, request.receipt)

    def _forget(self, client: Connection, request: Forget) -> None:
        name = durable_name(client.client_id, request.durable)
        mailbox = self.post_office.by_name.get(name)
        if mailbox is None:
            raise UsageError("E_DURABLE_UNKNOWN", f"no durable subscription {request.durable!r}")
        if mailbox.consumers:
            raise UsageError("E_DURABLE_BUSY", f"durable subscription {request.durable!r} has a subscriber")
        self.post_office.remove(mailbox)
        self._answer_when_written(client, request.receipt)

    def _credit(self, client: Connection, request: Credit) -> None:
        match client.subscription(request.subscription):
            case DirectSubscription(sink):
                self._plane.credit(sink, request.more)
            case MailboxSubscription(mailbox, consumer):
                consumer.credit = min(consumer.credit + request.more, self.settings.credit_max)
                self.post_office.touched[mailbox] = None

    def _ack(self, client: Connection, request: Ack) -> None:
        if request.session in client.transactions:
            client.transactions[request.session].acks.append(request)
        else:
            self._acknowledge(client, request)
        if request.receipt:
            self._answer_when_written(client, request.receipt)

    def _acknowledge(self, client: Connection, request: Ack) -> None:
        subscription = client.subscription(request.subscription)
        if not isinstance(subscription, MailboxSubscription):
            raise UsageError("E_ACK_NOT_WANTED", "messages of this subscription need no acknowledgement")
        mailbox, consumer = subscription.mailbox, subscription.consumer
        tags = list(request.tags)
        if request.cumulative and tags:
            tags = [tag for tag in consumer.unacknowledged if tag <= max(tags)]
        match request.verdict:
            case Verdict.DONE:
                self.post_office.finished(mailbox, mailbox.acknowledge(consumer, tags))
            case Verdict.RETRY:
                self.post_office.bury(mailbox, mailbox.refuse(consumer, tags), "delivered too often")
            case Verdict.DEAD:
                self.post_office.bury(mailbox, mailbox.reject(consumer, tags), "rejected by its consumer")
        self.post_office.touched[mailbox] = None

    # --- transactions ---------------------------------------------------------------------------------------------

    def _begin(self, client: Connection, request: Begin) -> None:
        if request.session in client.transactions:
            raise UsageError("E_TRANSACTION_OPEN", f"session {request.session} is in a transaction already")
        if len(client.transactions) >= self.settings.transactions_max:
            raise LimitError("E_TRANSACTIONS", f"at most {self.settings.transactions_max} transactions a connection")
        client.transactions[request.session] = Transaction()
        self._plane.transacted(client.number, request.session, True)
        self._answer(client, Done(request.receipt))

    def _commit(self, now_ms: int, client: Connection, request: Commit) -> None:
        transaction = client.transaction(request.session)
        if transaction.failure is not None:
            self._rollback(client, request.session)
            raise transaction.failure
        self._end_transaction(client, request.session)
        # Everything below is gathered in one turn, so it is written as one batch: all or nothing.
        for ack in transaction.acks:
            self._acknowledge(client, ack)
        for message in transaction.messages:
            self.inject(now_ms, message, client.number)
        self._journal.then(
            lambda: self._answer(client, Done(request.receipt)),
            lambda error: self._answer(client, Failed(request.receipt, error)),
        )

    def _rollback(self, client: Connection, session: int) -> None:
        transaction = client.transaction(session)
        self._end_transaction(client, session)
        for ack in transaction.acks:
            self._acknowledge(client, Ack(ack.subscription, ack.tags, ack.cumulative, Verdict.RETRY))

    def _end_transaction(self, client: Connection, session: int) -> None:
        del client.transactions[session]
        self._plane.transacted(client.number, session, False)

    # --- messages out ---------------------------------------------------------------------------------------------

    def inject(self, now_ms: int, message: bytes, connection: int | None = None) -> None:
        """Publish a message that did not come through the plane's own input."""
        sinks = self._plane.publish(message, now_ms, connection)
        mailboxes = [self.post_office.by_sink[sink] for sink in sinks]
        if not mailboxes and message[1] & QUEUE:
            mailboxes = [self.post_office.queue(destination_of(message))]
        if mailboxes:
            expires_ms = (decode_message(message).expiration_ms or 0) if message[1] & EXPIRES else 0
            self.post_office.accept(message, mailboxes, expires_ms=expires_ms)

    def _turn(self, now_ms: int) -> list[Effect]:
        """The end of each door: give out, write, answer, hold or release publishers."""
        self._dispatch(now_ms)
        effects: list[Effect] = [*self._effects, *self._journal.flush()]
        self._effects = []
        for connection, receipts in self._receipts.items():
            if connection in self.connections:
                effects.append(Reply(connection, Accepted(tuple(receipts))))
        self._receipts = {}
        self._maybe_release()
        self.post_office.depot.shrink()
        return effects

    def _dispatch(self, now_ms: int) -> None:
        office = self.post_office
        wanted = office.unread()
        for mailbox in office.take_touched():
            runs: dict[Consumer, tuple[list[int], list[int], list[bytes]]] = {}
            for consumer, tag, attempt, message in mailbox.dispatch(now_ms):
                attempts, tags, messages = runs.setdefault(consumer, ([], [], []))
                attempts.append(attempt)
                tags.append(tag)
                messages.append(message)
            for consumer, run in runs.items():
                self._plane.deliver(consumer.connection, consumer.subscription, *run)
            office.late(mailbox, mailbox.expired)
            wanted += mailbox.wanted
        missing = tuple(seq for seq in dict.fromkeys(wanted) if seq not in self._loading)
        if missing:
            self._loading.update(missing)
            self._effects.append(Load(missing))

    def _accepted(self, connection: int, receipt: int) -> None:
        if receipt:
            self._receipts.setdefault(connection, []).append(receipt)

    def _refused(self, connection: int, receipt: int, error: TidingsError) -> None:
        if receipt and connection in self.connections:
            self._effects.append(Reply(connection, Refused(receipt, error)))

    def _answer(self, client: Connection, answer: Answer) -> None:
        if client.number in self.connections:
            self._effects.append(Reply(client.number, answer))

    def _answer_when_written(self, client: Connection, receipt: int) -> None:
        self._journal.then(
            lambda: self._answer(client, Done(receipt)),
            lambda error: self._answer(client, Failed(receipt, error)),
        )

    def _end(self, subscription: DirectSubscription | MailboxSubscription) -> None:
        match subscription:
            case DirectSubscription(sink):
                self._plane.unsubscribe(sink)
            case MailboxSubscription(mailbox, consumer):
                self.post_office.detach(mailbox, consumer)

    # --- push-back ------------------------------------------------------------------------------------------------

    def _load(self) -> int:
        return max(self._journal.pending_bytes, 0)

    def _maybe_hold(self, connection: int) -> None:
        if self._crowded(1.0) and connection not in self._held:
            self._held.add(connection)
            self._plane.hold(connection)

    def _maybe_release(self) -> None:
        if self._held and not self._crowded(0.5):
            for connection in self._held:
                self._plane.release(connection)
            self._held = set()

    def _crowded(self, share: float) -> bool:
        settings = self.settings
        return (
            self._journal.pending_bytes > settings.journal_bytes_max * share
            or self.post_office.depot.pinned_bytes > settings.messages_bytes_max * share
        )
