"""Writes a single message synchronously, for a publisher that waits for each receipt.

Mostly it pays to wait for others: messages are gathered, leave as one batch, and what follows from that comes with the
batch's answer (`journal`). A publisher that waits for each receipt, with nobody beside it, gains nothing: whatever it
takes to gather stands between it and its next message. So the driver may write its message between `begin` and `end`,
together with the changes that nobody waits for, and confirm it before it goes on to its subscribers. If the disk
takes long, the write becomes a batch like any other (`late`), and what comes meanwhile is gathered for the next.
"""

from collections.abc import Sequence

from tidings.delivery.backlog import BacklogPosition
from tidings.delivery.mailbox import Mailbox
from tidings.delivery.store import TARGETS_MAX, Stored
from tidings.node.completions import ConfirmPublication, Offer, OfferMessage
from tidings.node.effects import PersistNow
from tidings.node.encoded_message import ID, PERSISTENT, PRIORITY
from tidings.node.mailboxes.journal import Journal
from tidings.node.mailboxes.mailbox_service import MailboxService
from tidings.node.plane import Plane
from tidings.node.tracing.recording import Tracking


class SyncWrite:
    def __init__(self, journal: Journal, service: MailboxService, plane: Plane, tracking: Tracking) -> None:
        self._journal, self._service, self._mailboxes = journal, service, service.mailboxes
        self._plane, self._tracking = plane, tracking
        self._begun: tuple[Stored, list[Mailbox], int] | None = None

    def begin(self, message: bytes, sinks: Sequence[int], expires_ms: int) -> PersistNow | None:
        """The records to be written; None: the message must go the usual way, which is always allowed."""
        changes, by_sink = self._journal.changes_alone(), self._mailboxes.by_sink
        if changes is None or not message[1] & PERSISTENT:
            return None
        if self._service.publish_dedup.perhaps(message[ID], said=False):
            return None
        mailboxes = [by_sink[sink] for sink in sinks if sink in by_sink and by_sink[sink].durable]
        if not mailboxes or len(mailboxes) != len(sinks) or len(mailboxes) > TARGETS_MAX:
            return None
        retained = self._mailboxes.retained
        if any(mailbox.quota is not None or mailbox.number in retained for mailbox in mailboxes):
            return None
        stored = Stored(self._service.take_seq(), message, tuple([mailbox.number for mailbox in mailboxes]))
        self._begun = stored, mailboxes, expires_ms
        return PersistNow(self._journal.next_ticket, (*changes, stored))

    def late(self, outcome: ConfirmPublication) -> None:
        """It is being written, and the driver goes on: the answer is `Persisted`."""
        assert self._begun is not None
        stored, mailboxes, expires_ms = self._begun
        self._begun = None
        message = stored.message_bytes
        offer = Offer(stored.seq, message, mailboxes, True, expires_ms, outcome.connection)
        self._service.publish_dedup.under_way.add(message[ID])
        self._journal.late_alone(stored, len(message), OfferMessage(offer, outcome))

    def end(self, now_ms: int) -> None:
        """It is written. To be called before anything else happens, and `Node.turn` after it."""
        assert self._begun is not None
        stored, mailboxes, expires_ms = self._begun
        self._begun = None
        self._journal.wrote_alone()
        if len(mailboxes) != 1 or expires_ms or not self._hand_on(now_ms, mailboxes[0], stored):
            self._service.offer(stored.seq, stored.message_bytes, mailboxes, stored=True, expires_ms=expires_ms)

    def _hand_on(self, now_ms: int, mailbox: Mailbox, stored: Stored) -> bool:
        """Deliver to a consumer that waits for nothing else. Memory need not keep the message: if it is returned, the
        store has it."""
        message = stored.message_bytes
        for consumer in mailbox.consumers:
            consumer.room_bytes = self._plane.room(consumer.connection) if consumer.output is None else 0
        given = mailbox.hand_on(BacklogPosition(stored.seq, message[PRIORITY]), message)
        if given is None:
            return False
        consumer, tag, attempt, _ = given
        self._plane.deliver(consumer.connection, consumer.subscription, [attempt], [tag], [message])
        self._tracking.delivered(now_ms, mailbox, consumer.connection, [message])
        self._service.publish_dedup.recent.add(message[ID])
        return True
