"""Loads messages whose bytes only the store has, and passes them to the mailboxes and readers that need them."""

from collections.abc import Collection, Iterable, Mapping

from tidings.node.clients.answer_batch import AnswerBatch
from tidings.node.clients.delayed_messages import DelayedMessages
from tidings.node.clients.queue_requests import Queues
from tidings.node.effects import LoadMessages, Log
from tidings.node.mailboxes.mailbox_service import MailboxService
from tidings.node.mailboxes.retained_subscriptions import RetainedSubscriptions
from tidings.node.network.network import Network


class MessageLoader:
    def __init__(
        self,
        service: MailboxService,
        queues: Queues,
        retaining: RetainedSubscriptions,
        delayed: DelayedMessages,
        network: Network | None,
        outbox: AnswerBatch,
    ) -> None:
        self._service, self._queues, self._retaining = service, queues, retaining
        self._delayed, self._network, self._outbox = delayed, network, outbox
        self._asked: set[int] = set()
        self._for_readers: set[int] = set()  # of these, what no mailbox waits for
        self._absent: set[int] = set()  # the store could not bring them: to be asked again at the next tick

    def tick(self) -> None:
        """About once a second."""
        self._absent.clear()

    def wanted(self) -> list[int]:
        """Messages to be loaded neither for delivery from mailboxes nor for readers of retained subscriptions."""
        wanted = [*self._service.unread(), *self._queues.wanted(), *self._delayed.wanted()]
        if self._network is not None:
            wanted += self._network.store_and_forward.wanted()
            wanted += self._network.event_custody.wanted()
            wanted += self._network.held_copies.wanted()
        return wanted

    def ask(self, wanted: list[int]) -> None:
        """Ask the store for these and for what readers want, unless it was asked already."""
        read = [seq for seq in self._retaining.wanted() if seq not in self._asked]
        if read:
            self._for_readers.update(set(read).difference(wanted))
            wanted = wanted + read
        missing = tuple(seq for seq in dict.fromkeys(wanted) if seq not in self._asked and seq not in self._absent)
        if missing:
            self._asked.update(missing)
            self._outbox.add(LoadMessages(missing))

    def loaded(
        self, now_ms: int, asked: Collection[int], messages: Mapping[int, bytes], damaged: Iterable[int]
    ) -> None:
        """Take an answer of the store; what is missing is requested again later, unless it is damaged."""
        lost = tuple(damaged)
        self._asked.difference_update(asked)
        self._absent.update(seq for seq in asked if seq not in messages and seq not in lost)
        if lost:
            self._outbox.add(Log("ERROR", "messages in the store are damaged and were given up", {"seqs": lost}))
            self._service.lost(lost)
            self._retaining.gave_up(lost)
            self._queues.lost(lost)
            self._delayed.lost(lost)
            if self._network is not None:
                self._network.store_and_forward.lost(set(lost))
                self._network.event_custody.lost(lost)
                self._network.held_copies.lost(set(lost))
        self._retaining.loaded(asked, messages)
        given = {seq: message for seq, message in messages.items() if seq not in self._for_readers}
        self._for_readers.difference_update(asked)
        if messages:
            self._delayed.loaded(now_ms, given)
            if self._network is not None:
                self._network.store_and_forward.loaded(given)
                self._network.event_custody.loaded(given)
                self._network.held_copies.loaded(now_ms, given)
            self._service.loaded(now_ms, given)
            self._queues.loaded(now_ms, messages)
