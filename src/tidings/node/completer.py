"""Carries out completions: the one place where what was written, or refused, has consequences.

A completion may make another one due, as when what came behind a refused copy is withdrawn, but it never waits.
"""

from collections.abc import Iterable
from typing import assert_never

from tidings.errors import TidingsError
from tidings.node.clients.answer_batch import AnswerBatch
from tidings.node.clients.delayed_messages import DelayedMessages
from tidings.node.clients.publications import Publications
from tidings.node.clients.records_and_wills import ClientRecords
from tidings.node.clients.request_handler import RequestHandler
from tidings.node.completions import (
    ActivateConsumer,
    ActivateRemoteConsumer,
    AnswerRecall,
    AnswerRequest,
    AnswerRetention,
    AnswerSettled,
    CarryEvent,
    CommitTransaction,
    Completion,
    ConfirmCopy,
    ConfirmEntry,
    ConfirmHandOver,
    ConfirmRepeat,
    ConfirmUnsubscribe,
    DeliverRelayed,
    ForwardMessage,
    ForwardQueued,
    HoldCopy,
    KeepDelayed,
    MoveWaiting,
    NetworkCompletion,
    OfferMessage,
    PublishDelayed,
    PublishEvent,
    ReleaseCopy,
    ReleaseEvent,
    RememberEntry,
    TakeRelay,
)
from tidings.node.effects import Persist
from tidings.node.mailboxes.journal import Journal
from tidings.node.mailboxes.mailbox_service import MailboxService
from tidings.node.mailboxes.retained_subscriptions import RetainedSubscriptions
from tidings.node.network.network import Network
from tidings.node.network_queues.network_queues import NetworkQueues
from tidings.node.requests import Done


class Completer:
    def __init__(
        self,
        journal: Journal,
        outbox: AnswerBatch,
        service: MailboxService,
        publishing: Publications,
        delayed: DelayedMessages,
        request_handler: RequestHandler,
        retaining: RetainedSubscriptions,
        records: ClientRecords,
        network: Network | None,
        network_queues: NetworkQueues | None,
    ) -> None:
        self._network_queues = network_queues
        self._journal, self._outbox, self._service, self._records = journal, outbox, service, records
        self._publishing, self._delayed, self._request_handler, self._retaining, self._network = (
            publishing,
            delayed,
            request_handler,
            retaining,
            network,
        )

    def flush(self, *, retry: bool = False) -> list[Persist]:
        """`Journal.flush`; what needs no write is carried out at once."""
        write, completions, more = self._journal.flush(retry=retry)
        if completions:
            self.complete_all(completions, None)
        if more:
            return self.flush(retry=retry)
        return [] if write is None else [write]

    def finished(self, ticket: int, error: TidingsError | None) -> None:
        """A batch is durable, or was refused."""
        self.complete_all(self._journal.finished(ticket, error), error)

    def complete_all(self, completions: Iterable[Completion], error: TidingsError | None) -> None:
        """All of them, even if one raises."""
        waiting = iter(completions)
        try:
            for completion in waiting:
                self.complete(completion, error)
        except Exception:
            self.complete_all(waiting, error)
            raise

    def complete(self, completion: Completion, error: TidingsError | None) -> None:
        """Carry out a completion: what it waited for is durable, or (`error`) was refused."""
        match completion:
            case OfferMessage():  # the most frequent one
                self._service.written(completion, error)
            case ConfirmRepeat():
                self._service.decide_repeat(completion)
            case ConfirmEntry():
                self._publishing.confirm_entry(completion, error)
            case PublishEvent():
                self._publishing.publish_event(completion, error)
            case KeepDelayed():
                self._delayed.kept(completion, error)
            case PublishDelayed():
                self._delayed.published(completion, error)
            case CommitTransaction():
                self._request_handler.transactions.complete(completion, error)
            case AnswerRequest(connection, done):
                self._outbox.answer_with(connection, done, error)
            case ActivateConsumer():
                self._request_handler.subscriptions.complete(completion, error)
            case ConfirmUnsubscribe(connection, receipt):
                self._outbox.answer(connection, Done(receipt))
            case AnswerRetention():
                self._retaining.answer(completion, error)
            case AnswerRecall():
                self._records.answer(completion)
            case (
                ForwardMessage()
                | CarryEvent()
                | ReleaseEvent()
                | RememberEntry()
                | DeliverRelayed()
                | HoldCopy()
                | ReleaseCopy()
                | MoveWaiting()
                | ForwardQueued()
                | ActivateRemoteConsumer()
                | AnswerSettled()
                | TakeRelay()
                | ConfirmHandOver()
                | ConfirmCopy()
            ):
                assert self._network is not None
                self._complete_network(self._network, completion, error)
            case _:
                assert_never(completion)

    def _complete_network(self, network: Network, completion: NetworkCompletion, error: TidingsError | None) -> None:
        match completion:
            case ForwardMessage():
                if error is None:
                    network.store_and_forward.forward(completion)
            case CarryEvent(seq, message):
                if error is None:
                    network.event_custody.add(seq, message)
            case ReleaseEvent(tag):
                network.event_custody.release(tag, error)
            case RememberEntry(message_id):
                if error is not None:
                    network.store_and_forward.forget(message_id)
            case DeliverRelayed():
                network.store_and_forward.deliver_relayed(completion, error)
            case HoldCopy():
                network.store_and_forward.held_copy(completion, error)
            case ReleaseCopy():
                network.held_copies.released(completion, error)
            case MoveWaiting():
                network.diversions.finish(completion, error)
            case ForwardQueued() | ActivateRemoteConsumer() | AnswerSettled():
                assert self._network_queues is not None
                self._network_queues.complete(completion, error)
            case TakeRelay():
                if network.relay_inbox.complete(completion, error):
                    self.complete_all(self._journal.withdraw(completion.life), error)
            case ConfirmHandOver():
                network.scheme_forwarding.complete(completion, error)
            case ConfirmCopy(then=then):
                self._complete_network(network, then, error or network.store_and_forward.confirm_copy(completion))
            case _:
                assert_never(completion)
