"""Carries out what clients ask for, or has it carried out: subscriptions, consuming, transactions, queues."""

from collections.abc import Mapping
from typing import assert_never

from tidings.delivery.mailbox import MailboxKind
from tidings.errors import LimitError, SecurityError, TidingsError, UsageError
from tidings.model.destination import Destination
from tidings.node.clients.answer_batch import AnswerBatch
from tidings.node.clients.consumers import Consumers
from tidings.node.clients.delayed_messages import DelayedMessages
from tidings.node.clients.interest_spread import InterestSpread
from tidings.node.clients.publications import Publications
from tidings.node.clients.queue_requests import Queues
from tidings.node.clients.records_and_wills import ClientRecords
from tidings.node.clients.session import Connection
from tidings.node.clients.subscription_plan import CLIENT_ID_MAX, is_temporary, queue_predicate
from tidings.node.clients.subscriptions import EVERYTHING, Subscriptions
from tidings.node.clients.transactions import OpenTransactions
from tidings.node.completions import AnswerRequest
from tidings.node.effects import Close
from tidings.node.mailboxes.journal import Journal
from tidings.node.mailboxes.mailbox_service import MailboxService
from tidings.node.network_queues.network_queues import NetworkQueues
from tidings.node.plane import Plane
from tidings.node.requests import (
    Ack,
    Begin,
    Browse,
    Commit,
    CreateQueue,
    Credit,
    DeleteQueue,
    DeskRequest,
    Done,
    Drain,
    EndConnection,
    Forget,
    Identify,
    Leave,
    MakeTemporary,
    Move,
    Purge,
    RemoveTemporary,
    Rollback,
    Subscribe,
    SubscribeWait,
    Sync,
    Unsubscribe,
)
from tidings.node.settings import NodeSettings


class RequestHandler:
    def __init__(
        self,
        plane: Plane,
        service: MailboxService,
        journal: Journal,
        outbox: AnswerBatch,
        settings: NodeSettings,
        publishing: Publications,
        records: ClientRecords,
        delayed: DelayedMessages,
        spread: InterestSpread | None,
        network_queues: NetworkQueues | None,
        connections: Mapping[int, Connection],
    ) -> None:
        self._connections = connections
        self._service, self._journal, self._outbox, self._spread = service, journal, outbox, spread
        self._network_queues = network_queues
        self.queues = Queues(plane, service, journal, outbox, network_queues)
        self.consuming = Consumers(plane, service, journal, outbox, settings)
        self.subscriptions = Subscriptions(plane, service, journal, outbox, settings, spread, network_queues)
        self.transactions = OpenTransactions(
            plane, service, journal, outbox, settings, self.subscriptions, publishing, records, delayed
        )

    def carry_out(self, now_ms: int, client: Connection, request: DeskRequest) -> None:
        match request:
            case Ack():  # the most frequent ones first
                self.consuming.ack(now_ms, client, request)
            case Credit():
                self.consuming.credit(now_ms, client, request)
            case Subscribe():
                self.subscriptions.subscribe(now_ms, client, request)
            case Unsubscribe():
                self.subscriptions.unsubscribe(client, request)
            case Forget():
                self.subscriptions.forget(client, request)
            case Drain():
                self.consuming.drain(client, request)
            case Identify():
                self._identify(client, request)
            case MakeTemporary():
                self._make_temporary(client, request)
            case RemoveTemporary():
                self._remove_temporary(client, request)
            case Begin():
                self.transactions.begin(client, request)
            case Commit():
                self.transactions.commit(now_ms, client, request)
            case Rollback():
                self.transactions.roll_back(client, request)
            case Sync():
                self._sync(client, request)
            case Leave():
                self.subscriptions.end_all(client)
                self._journal.then(AnswerRequest(client.number, Done(request.receipt)))
            case Browse():
                self.queues.browse(now_ms, client, request)
            case Purge():
                self.queues.purge(client, request)
            case Move():
                self.queues.move(now_ms, client, request)
            case CreateQueue():
                self.queues.create(client, request)
            case DeleteQueue():
                self.queues.delete(client, request)
            case EndConnection():
                self._end_connection(client, request)
            case _:
                assert_never(request)

    def lost(self, client: Connection) -> None:
        """The connection is gone: so are its transactions and subscriptions."""
        self.transactions.lost(client)
        self.subscriptions.end_all(client)
        for mailbox in client.temporary.values():
            with self._outbox.told("a temporary queue could not be removed"):
                self._service.remove(mailbox)

    def _sync(self, client: Connection, request: Sync) -> None:
        done, spread = AnswerRequest(client.number, Done(request.receipt)), self._spread
        if request.wait is SubscribeWait.BROKER or spread is None:
            if self._network_queues is None or not self._network_queues.sync(client, done):
                self._journal.then(done)
            return

        def spread_out(error: TidingsError | None) -> None:
            if error is None:
                self._journal.then(done)
            else:
                self._outbox.answer_with(client.number, done.done, error)

        spread.wait(spread_out)

    def _end_connection(self, client: Connection, request: EndConnection) -> None:
        if not client.principal.may("manage", EVERYTHING):
            reason = f"{client.principal.name} may not close connections; that needs the right to manage {EVERYTHING}"
            raise SecurityError("E_FORBIDDEN", reason)
        if request.connection not in self._connections:
            raise UsageError("E_CONNECTION_UNKNOWN", f"there is no connection {request.connection}")
        reason = "the connection was closed by an administrator"
        self._outbox.answer(client.number, Done(request.receipt))
        self._outbox.add(Close(request.connection, "E_CLOSED_BY_ADMIN", reason))

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
            raise UsageError("E_QUEUE_TEMPORARY", f"{name!r} is no temporary queue: those are called queue:tmp.…")
        if not client.principal.may("subscribe", name):
            raise SecurityError("E_FORBIDDEN", f"{client.principal.name} may not subscribe to {name}")
        if name in self._service.mailboxes.by_name:
            raise UsageError("E_QUEUE_EXISTS", f"there is a temporary queue {queue.name!r} already")
        client.temporary[name] = self._service.mailboxes.make(
            name, MailboxKind.TEMPORARY, queue_predicate(queue), maker=client.number
        )
        self._outbox.answer(client.number, Done(request.receipt))

    def _remove_temporary(self, client: Connection, request: RemoveTemporary) -> None:
        mailbox = client.temporary.pop(str(Destination.parse(request.queue)), None)
        if mailbox is None:
            raise UsageError("E_QUEUE_TEMPORARY", f"no temporary queue {request.queue!r} of this connection")
        self._service.remove(mailbox)
        self._outbox.answer(client.number, Done(request.receipt))
