"""Routes messages published here or sent by other brokers to mailboxes, to the plane's sinks, and to other brokers.

Plain messages never come here: the plane serves them alone. Publishers that exceed the available memory are held until
there is room (`relieve`).
"""

from tidings.delivery.mailbox import NEW, PERHAPS_SEEN, Mailbox
from tidings.errors import TidingsError
from tidings.kernel.events import Published, PublishedToRouters, PublishedToScheme, Relayed, RemoteMessage
from tidings.model.event_type_topics import is_event
from tidings.model.message_id import MessageId
from tidings.node.clients.answer_batch import AnswerBatch
from tidings.node.clients.publish_dedup import copy_refused
from tidings.node.completions import ConfirmEntry, ConfirmPublication, Outcome, PublicationStored, PublishEvent
from tidings.node.encoded_message import ID, PERSISTENT, QUEUE, expires_ms_of
from tidings.node.mailboxes.backpressure import CROWD, LINKS, Backpressure
from tidings.node.mailboxes.journal import Journal
from tidings.node.mailboxes.mailbox_service import MailboxService
from tidings.node.network.network import Network
from tidings.node.plane import NetworkPlane
from tidings.node.settings import NodeSettings


class Publications:
    """Call `Node.turn` after the last message of a batch."""

    def __init__(
        self,
        plane: NetworkPlane,
        service: MailboxService,
        journal: Journal,
        outbox: AnswerBatch,
        backpressure: Backpressure,
        settings: NodeSettings,
        network: Network | None,
    ) -> None:
        self._plane, self._service, self._mailboxes = plane, service, service.mailboxes
        self._journal, self._outbox, self._backpressure, self._settings = journal, outbox, backpressure, settings
        self._network = network

    def message(self, now_ms: int, event: Published) -> None:
        """A message that mailboxes wait for."""
        outcome = ConfirmPublication(event.connection, event.receipt)
        try:
            self._post(now_ms, event, outcome)
        except TidingsError as error:
            self._outbox.refused(event.connection, event.receipt, error.alone())

    def refuse(self, connection: int, receipt: int, error: TidingsError) -> None:
        """A message could not be written (`SoloPublisher`)."""
        self._outbox.refused(connection, receipt, error)

    def arrived(self, event: RemoteMessage) -> None:
        """A message of another broker, not persistent, for mailboxes here."""
        mailboxes = self._mailboxes.for_message(event.message, event.sinks)
        marked = self._network is not None and self._network.store_and_forward.may_repeat(event.message[ID])
        self._service.accept(event.message, mailboxes, expires_ms=event.expires_ms, marked=marked)

    def relayed(self, now_ms: int, event: Relayed) -> None:
        """A persistent message of another broker."""
        assert self._network is not None
        self._network.relayed(now_ms, event)

    def entered(self, now_ms: int, event: PublishedToRouters | PublishedToScheme) -> None:
        """A message that other brokers want, or that a routing scheme carries, and perhaps mailboxes here; the receipt
        is for both."""
        assert self._network is not None
        if isinstance(event, PublishedToRouters):
            if refusal := self._network.first_sync.refusal():
                self._outbox.refused(event.connection, event.receipt, refusal)
                return
            repeated = self._service.publish_dedup.perhaps(event.message[ID], event.perhaps_sent)
            self._network.store_and_forward.accept(event.message, event.routers, event.expires_ms, repeated=repeated)
        else:
            self._enter(self._network, now_ms, event.message, event.connection)
        try:
            repeated = self._post(now_ms, event, None)
        except TidingsError as error:
            self._journal.then(ConfirmEntry(event.connection, event.receipt, refusal=error.alone()))
        else:
            copy_of = event.message[ID] if repeated else b""
            self._journal.then(ConfirmEntry(event.connection, event.receipt, copy_of=copy_of))

    def confirm_entry(self, entry: ConfirmEntry, error: TidingsError | None) -> None:
        connection, receipt, copy_of, refusal = entry
        error = error or refusal
        if error is None and copy_of and not self._is_safe(copy_of):
            error = copy_refused()
        if error is None:
            self._outbox.accepted(connection, receipt)
        else:
            self._outbox.refused(connection, receipt, error)

    def _is_safe(self, message_id: bytes) -> bool:
        seen_here = message_id in self._service.publish_dedup.recent
        return seen_here or (self._network is not None and self._network.store_and_forward.missing(message_id) is None)

    def event(self, now_ms: int, connection: int, receipt: int, message: bytes) -> None:
        """An event that fits its type. One that was sent before and is safe, as after a broken connection, is not sent
        again."""
        persistent = bool(message[1] & PERSISTENT)
        known = message[ID] in self._service.publish_dedup.recent
        if self._network is not None and persistent and not known:
            known = not self._network.store_and_forward.saw(message[ID])
        expires_ms = expires_ms_of(message)
        if known or 0 < expires_ms <= now_ms:
            self._journal.then(ConfirmEntry(connection, receipt, copy_of=message[ID] if known else b""))
            return
        mailboxes = self._mailboxes.for_message(message, self._plane.match(message), maker=connection)
        self._journal.then(PublishEvent(receipt, self.prepare(now_ms, connection, message, mailboxes)))
        if self._crowded(1.0):
            self._backpressure.hold(connection, CROWD)

    def prepare(
        self, now_ms: int, connection: int | None, message: bytes, mailboxes: list[Mailbox]
    ) -> PublicationStored:
        """Journal the message if need be; returns what is to be published once that is safe."""
        persistent = message[1] & PERSISTENT and not message[1] & QUEUE
        if persistent and self._network is not None and (refusal := self._network.first_sync.refusal()):
            raise refusal
        repeated = self._came_before(message[ID])
        if repeated and mailboxes and persistent and self._network is not None:
            self._network.store_and_forward.published_again(message[ID])
        tries = PERHAPS_SEEN if repeated else NEW
        offer = self._service.prepare(message, mailboxes, expires_ms_of(message), connection, tries)
        return PublicationStored(now_ms, connection, message, offer, enters=self._abroad(message, repeated=repeated))

    def _came_before(self, message_id: bytes) -> bool:
        """True if a message of a transaction, or an event, may have been published before: its id was made for another
        broker, which the plane takes only of what is sent again, or its publisher sends again what it sent."""
        moved = MessageId.from_bytes(message_id).broker != self._settings.broker_id
        return self._service.publish_dedup.perhaps(message_id, said=moved)

    def publish(self, publication: PublicationStored) -> None:
        """A message that is safe goes to its subscribers."""
        now_ms, connection, message, offer, enters = publication
        self._plane.publish(message, now_ms, connection)
        self._service.offer(*offer)
        if enters:
            assert self._network is not None
            self._enter(self._network, now_ms, message, connection)

    def publish_event(self, event: PublishEvent, error: TidingsError | None) -> None:
        receipt, publication = event
        if publication.connection is None:
            if error is None:
                self.publish(publication)
        elif error is None:
            self.publish(publication)
            self._outbox.accepted(publication.connection, receipt)
        else:
            self._service.abandon(publication.offer)
            self._outbox.refused(publication.connection, receipt, error)

    def relieve(self, now_ms: int) -> None:
        """Release publishers that need not wait any more; while memory is short, end consumers that hold it and take
        nothing."""
        if self._backpressure.holding(CROWD):
            if self._crowded(0.75):
                excess = self._service.message_cache.pinned_bytes - self._settings.messages_bytes_max * 3 // 4
                self._service.overflow.clear_stalled(now_ms, self._service.attended, excess)
            else:
                self._backpressure.release(CROWD)
        if self._backpressure.holding(LINKS) and not (self._network and self._network.scheme_forwarding.congested(0.5)):
            self._backpressure.release(LINKS)

    def _post(
        self, now_ms: int, event: Published | PublishedToRouters | PublishedToScheme, outcome: Outcome | None
    ) -> bool:
        """`MailboxService.accept` for a publisher, which must wait if there is too much."""
        try:
            mailboxes = self._mailboxes.for_message(event.message, event.sinks, maker=event.connection)
            message, expires_ms = event.message, event.expires_ms
            if event.perhaps_sent and mailboxes and self._network is not None and message[1] & PERSISTENT:
                self._network.store_and_forward.published_again(message[ID])
            if self._mailboxes.limited and not self._service.publish_dedup.is_copy(message[ID], event.perhaps_sent):
                self._service.limits.admit([(len(message), mailboxes)])
                message, expires_ms = self._service.limits.shortened(now_ms, message, expires_ms, mailboxes)
            return self._service.accept(
                message,
                mailboxes,
                expires_ms=expires_ms,
                publisher=event.connection,
                perhaps_sent=event.perhaps_sent,
                outcome=outcome,
            )
        finally:
            if self._crowded(1.0):
                self._backpressure.hold(event.connection, CROWD)

    def _enter(self, network: Network, now_ms: int, message: bytes, connection: int | None) -> None:
        network.scheme_forwarding.enter(now_ms, message, connection)
        if connection is not None and network.scheme_forwarding.congested(1.0) and connection in self._outbox.connected:
            self._backpressure.hold(connection, LINKS)

    def _abroad(self, message: bytes, *, repeated: bool) -> bool:
        """The message for other brokers: what is persistent is stored in the same batch. Returns whether it is to enter
        the network once that is safe."""
        if self._network is None or message[1] & QUEUE:
            return False
        if not message[1] & PERSISTENT:
            return True
        if self._network.scheme_forwarding.events is not None and is_event(message):
            self._network.event_custody.accept(message)
        elif routers := self._plane.destinations(message):
            self._network.store_and_forward.accept(message, routers, expires_ms_of(message), repeated=repeated)
        return False

    def _crowded(self, share: float) -> bool:
        """True if publishers must wait: too much is on its way to disk, or kept in memory alone."""
        settings = self._settings
        return (
            self._journal.pending_bytes > settings.journal_bytes_max * share
            or self._journal.pending_messages > settings.pieces.journal_messages * share
            or self._service.message_cache.pinned_bytes > settings.messages_bytes_max * share
        )
