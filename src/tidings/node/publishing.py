"""What is published here, and what other brokers send: to mailboxes, to the plane's sinks, and on to other brokers.

The path of plain messages never comes here: the plane serves it by itself. Who publishes more than there is room for
must wait, until there is (`relieve`).
"""

from collections.abc import Callable, Iterable

from tidings.delivery.mailbox import Mailbox
from tidings.errors import TidingsError
from tidings.kernel.events import Published, PublishedToRouters, PublishedToScheme, Relayed, RemoteMessage
from tidings.model.type_topics import is_event
from tidings.node.brakes import CROWD, LINKS, Brakes
from tidings.node.encoded import ID, PERSISTENT, QUEUE, expires_ms_of
from tidings.node.journal import Journal
from tidings.node.network import Network
from tidings.node.outbox import Outbox
from tidings.node.plane import NetworkPlane
from tidings.node.post_office import PostOffice
from tidings.node.settings import Settings


class Publishing:
    """Call `Node.turn` after the last message of a batch."""

    def __init__(
        self,
        plane: NetworkPlane,
        office: PostOffice,
        journal: Journal,
        outbox: Outbox,
        brakes: Brakes,
        settings: Settings,
        network: Network | None,
    ) -> None:
        self._plane, self._office, self._mailboxes = plane, office, office.mailboxes
        self._journal, self._outbox, self._brakes, self._settings = journal, outbox, brakes, settings
        self._network = network

    def message(self, event: Published) -> None:
        """A message that mailboxes wait for."""
        connection, receipt = event.connection, event.receipt
        self._post(
            connection,
            event.message,
            event.sinks,
            event.expires_ms,
            event.perhaps_sent,
            lambda: self._outbox.accepted(connection, receipt),
            lambda error: self._outbox.refused(connection, receipt, error),
        )

    def refuse(self, connection: int, receipt: int, error: TidingsError) -> None:
        """A message could not be written (`Alone`)."""
        self._outbox.refused(connection, receipt, error)

    def arrived(self, event: RemoteMessage) -> None:
        """A message of another broker, not persistent, for mailboxes here."""
        mailboxes = self._mailboxes.for_message(event.message, event.sinks)
        self._office.accept(event.message, mailboxes, expires_ms=event.expires_ms)

    def relayed(self, now_ms: int, event: Relayed) -> None:
        """A persistent message of another broker."""
        assert self._network is not None
        self._network.relayed(now_ms, event)

    def entered(self, now_ms: int, event: PublishedToRouters | PublishedToScheme) -> None:
        """A message that other brokers want, or that a routing scheme carries, and perhaps mailboxes here."""
        assert self._network is not None
        connection, receipt, message = event.connection, event.receipt, event.message
        if isinstance(event, PublishedToRouters):
            self._network.transit.accept(message, event.routers, event.expires_ms)
        else:
            self._enter(self._network, now_ms, message, connection)
        errors: list[TidingsError] = []
        self._post(connection, message, event.sinks, event.expires_ms, event.perhaps_sent, None, errors.append)
        self._journal.then(  # the receipt is for both: what is kept here, and what others are to get
            lambda: self._answered(connection, receipt, errors),
            lambda error: self._outbox.refused(connection, receipt, error),
        )

    def event(self, now_ms: int, connection: int, receipt: int, message: bytes) -> None:
        """An event that fits its type. One that was sent before and is safe, as after a broken connection, is not sent
        again."""
        persistent = bool(message[1] & PERSISTENT)
        known = message[ID] in self._office.repeats.recent
        if self._network is not None and persistent and not known:
            known = not self._network.transit.saw(message[ID])
        expires_ms = expires_ms_of(message)
        if known or 0 < expires_ms <= now_ms:
            self._journal.then(lambda: self._outbox.accepted(connection, receipt))
            return
        mailboxes = self._mailboxes.for_message(message, self._plane.match(message))
        publish = self.prepare(now_ms, connection, message, mailboxes)

        def published() -> None:
            publish()
            self._outbox.accepted(connection, receipt)

        self._journal.then(published, lambda error: self._outbox.refused(connection, receipt, error))
        if self._crowded(1.0):
            self._brakes.hold(connection, CROWD)

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

    def relieve(self, now_ms: int) -> None:
        """Let publishers go who need not wait any more; while memory is short, end who holds it and takes nothing."""
        if self._brakes.holding(CROWD):
            if self._crowded(0.75):
                excess = self._office.depot.pinned_bytes - self._settings.messages_bytes_max * 3 // 4
                self._office.overflow.clear_stalled(now_ms, self._office.attended, excess)
            else:
                self._brakes.release(CROWD)
        if self._brakes.holding(LINKS) and not (self._network and self._network.carriage.congested(0.5)):
            self._brakes.release(LINKS)

    def _post(
        self,
        connection: int,
        message: bytes,
        sinks: Iterable[int],
        expires_ms: int,
        perhaps_sent: bool,
        done: Callable[[], None] | None,
        failed: Callable[[TidingsError], None],
    ) -> None:
        try:
            self._office.accept(
                message,
                self._mailboxes.for_message(message, sinks),
                expires_ms=expires_ms,
                publisher=connection,
                perhaps_sent=perhaps_sent,
                done=done,
                failed=failed,
            )
        except TidingsError as error:
            failed(error.alone())
        if self._crowded(1.0):
            self._brakes.hold(connection, CROWD)

    def _answered(self, connection: int, receipt: int, errors: list[TidingsError]) -> None:
        if errors:
            self._outbox.refused(connection, receipt, errors[0])
        else:
            self._outbox.accepted(connection, receipt)

    def _enter(self, network: Network, now_ms: int, message: bytes, connection: int) -> None:
        network.carriage.enter(now_ms, message, connection)
        if network.carriage.congested(1.0) and connection in self._outbox.connected:
            self._brakes.hold(connection, LINKS)

    def _abroad(self, now_ms: int, connection: int, message: bytes) -> Callable[[], None] | None:
        """The message for other brokers: what is persistent is stored in the same batch. Returns what is to be
        done once that is safe."""
        if self._network is None or message[1] & QUEUE:
            return None
        if self._network.carriage.events is not None and message[1] & PERSISTENT and is_event(message):
            self._network.event_post.accept(message)
            return None
        if not message[1] & PERSISTENT:
            network = self._network
            return lambda: self._enter(network, now_ms, message, connection)
        if routers := self._plane.destinations(message):
            self._network.transit.accept(message, routers, expires_ms_of(message))
        return None

    def _crowded(self, share: float) -> bool:
        """Whether publishers must wait: too much on its way to disk, or too much that only memory has."""
        settings = self._settings
        return (
            self._journal.pending_bytes > settings.journal_bytes_max * share
            or self._office.depot.pinned_bytes > settings.messages_bytes_max * share
        )
