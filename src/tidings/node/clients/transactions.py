"""Transactions: messages and acknowledgements are gathered until the commit, which does all of it or nothing."""

from tidings.errors import LimitError, TidingsError, UsageError
from tidings.model.values import Value
from tidings.node.clients.answer_batch import AnswerBatch
from tidings.node.clients.consumers import give_back
from tidings.node.clients.delayed_messages import DelayedMessages, is_delayed
from tidings.node.clients.idempotent_commit import DIGEST_MAX, IdempotentCommit
from tidings.node.clients.publications import Publications
from tidings.node.clients.records_and_wills import ClientRecords, notes_of
from tidings.node.clients.session import Connection, OpenTransaction
from tidings.node.clients.subscriptions import Subscriptions
from tidings.node.completions import CommitTransaction
from tidings.node.mailboxes.journal import Journal
from tidings.node.mailboxes.mailbox_service import MailboxService
from tidings.node.network_queues.attached_mailbox import AttachedMailbox
from tidings.node.network_queues.consumer_side import home_lost
from tidings.node.plane import Plane
from tidings.node.requests import Begin, Commit, Done, Failed, Rollback
from tidings.node.settings import NodeSettings


class OpenTransactions:
    def __init__(
        self,
        plane: Plane,
        service: MailboxService,
        journal: Journal,
        outbox: AnswerBatch,
        settings: NodeSettings,
        subscriptions: Subscriptions,
        publishing: Publications,
        records: ClientRecords,
        delayed: DelayedMessages,
    ) -> None:
        self.once = IdempotentCommit()
        self._plane, self._service, self._journal = plane, service, journal
        self._outbox, self._settings = outbox, settings
        self._subscriptions, self._publishing, self._records = subscriptions, publishing, records
        self._delayed = delayed
        self._bytes = 0  # of messages in all that are open

    def begin(self, client: Connection, request: Begin) -> None:
        if request.session in client.transactions:
            raise UsageError("E_TRANSACTION_OPEN", f"session {request.session} is in a transaction already")
        if len(client.transactions) >= self._settings.transactions_max:
            limit = self._settings.transactions_max
            raise LimitError("E_TRANSACTIONS", f"a connection has at most {limit} open transactions")
        client.transactions[request.session] = OpenTransaction()
        self._plane.transacted(client.number, request.session, True)
        self._outbox.answer(client.number, Done(request.receipt))

    def add(self, client: Connection, session: int, receipt: int, message: bytes) -> None:
        """A message that waits for the commit."""
        transaction = client.transactions.get(session) or client.transaction(session)  # which says that there is none
        all_bytes, own_bytes = self._bytes + len(message), transaction.bytes + len(message)
        settings = self._settings
        if transaction.failure is None and (
            own_bytes > settings.transaction_bytes_max or all_bytes > settings.transactions_bytes_max
        ):
            self._fail(transaction, "more bytes than open transactions may hold")
        elif transaction.failure is None and len(transaction.messages) >= settings.transaction_messages_max:
            self._fail(transaction, f"a transaction has at most {settings.transaction_messages_max} messages")
        if transaction.failure is not None:
            self._outbox.refused(client.number, receipt, transaction.failure)
        else:
            self._bytes, transaction.bytes = all_bytes, own_bytes
            transaction.messages.append(message)
            self._outbox.accepted(client.number, receipt)

    def _fail(self, transaction: OpenTransaction, reason: str) -> None:
        """It can only be rolled back now: what it holds is not needed any more."""
        self._bytes -= transaction.bytes
        transaction.messages.clear()
        transaction.bytes = 0
        transaction.failure = LimitError("E_TRANSACTION_SIZE", reason)

    def commit(self, now_ms: int, client: Connection, request: Commit) -> None:
        transaction = self._end(client, request.session)
        key = request.key and f"{client.principal.name}/{request.key}"  # everybody has keys of their own
        before = self.once.last(key)
        try:
            if transaction.failure is not None:
                raise transaction.failure
            if len(request.digest) > DIGEST_MAX:
                raise UsageError("E_COMMIT_KEY", f"a digest must have at most {DIGEST_MAX} characters")
            if key and self.once.done(key, request.number):
                self._roll_back(transaction)
                last: dict[str, Value] = {"duplicate": True, "number": before.number, "digest": before.digest}
                self._outbox.answer(client.number, Done(request.receipt, last))
                return
            for mailbox, places in transaction.acks:
                if isinstance(mailbox, AttachedMailbox) and mailbox.has_stale(places):
                    raise home_lost()
            # All that can go wrong comes first: what is in the journal can no longer be taken back.
            place, late = self._service.mailboxes.for_message, request.drops_late
            now = [one for one in transaction.messages if not is_delayed(one)]
            targets = [place(one, self._plane.match(one), drops_late=late, maker=client.number) for one in now]
            self._service.limits.admit(zip(map(len, now), targets, strict=True))
        except TidingsError:
            self._failed(client, request, transaction)
            raise
        publications = tuple(
            [
                self._publishing.prepare(
                    now_ms, client.number, self._service.limits.dated(now_ms, message, mailboxes), mailboxes
                )
                for message, mailboxes in zip(now, targets, strict=True)
            ]
        )
        delayed = tuple([self._delayed.store(message) for message in transaction.messages if is_delayed(message)])
        for mailbox, places in transaction.acks:
            self._service.finished_if_written(mailbox, [place.seq for place in places])
        for note in notes_of(client.client_id, transaction.records):
            self._journal.message(note, 0)
        if key:
            note = self.once.begin(key, request.number, self._service.take_seq(), request.digest)
            self._journal.message(note, 0)
        self._journal.then(CommitTransaction(client, request, transaction, publications, delayed, key, before))

    def complete(self, commit: CommitTransaction, error: TidingsError | None) -> None:
        """The transaction is durable, or (`error`) was refused."""
        if error is not None:
            if commit.key:
                self.once.failed(commit.key, commit.before)
            for publication in commit.publications:
                self._service.abandon(publication.offer)
            self._failed(commit.client, commit.request, commit.transaction)
            self._outbox.answer(commit.client.number, Failed(commit.request.receipt, error))
            return
        self.once.finished(commit.key)
        for mailbox, places in commit.transaction.acks:
            for place in places:
                mailbox.finish(place.seq)
        for name, value in commit.transaction.records.items():
            self._records.set(commit.client.client_id, name, value)
        for returned in commit.transaction.returned:
            give_back(self._service, returned)
        for publication in commit.publications:
            self._publishing.publish(publication)
        for entry in commit.delayed:
            self._delayed.add(entry)
        self._outbox.answer(commit.client.number, Done(commit.request.receipt))

    def roll_back(self, client: Connection, request: Rollback) -> None:
        self._roll_back(self._end(client, request.session))
        self._outbox.answer(client.number, Done(request.receipt))

    def lost(self, client: Connection) -> None:
        """The connection is gone, and with it what was not committed."""
        for transaction in client.transactions.values():
            self._bytes -= transaction.bytes
            with self._outbox.told("a transaction could not be rolled back"):
                self._roll_back(transaction)

    def _failed(self, client: Connection, request: Commit, transaction: OpenTransaction) -> None:
        if request.or_leaves:  # or it would be given again what it had, and that would count as one more try
            self._subscriptions.end_all(client)
        self._roll_back(transaction)

    def _roll_back(self, transaction: OpenTransaction) -> None:
        for mailbox, places in transaction.acks:
            self._service.retry(mailbox, places)
        for returned in transaction.returned:
            self._service.retry(returned.mailbox, returned.places)

    def _end(self, client: Connection, session: int) -> OpenTransaction:
        transaction = client.transaction(session)
        del client.transactions[session]
        self._bytes -= transaction.bytes
        self._plane.transacted(client.number, session, False)
        return transaction
