"""Tracking as a part of the node: joins what the plane records, the attached clients, and the tracing of messages.

The plane records what is published, routed, forwarded and delivered straight; deliveries from mailboxes are added here.
A *subscriber* is a client, under its client id, or a mailbox under its name. Of a queue or shared subscription the
consumer is recorded too, as `NAME to CLIENT`. Everything to be stored leaves as one effect `Track`.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

from tidings.delivery.mailbox import Mailbox, MailboxKind
from tidings.model.message_id import MessageId
from tidings.node.clients.answer_batch import AnswerBatch
from tidings.node.clients.session import Connection
from tidings.node.effects import Inquire, Track
from tidings.node.encoded_message import ID
from tidings.node.mailboxes.mailbox_service import MailboxService
from tidings.node.network.datagrams import KEY_KINDS, TRACE_KINDS
from tidings.node.network.network import Network
from tidings.node.plane import TrackingPlane
from tidings.node.tracing.key_searches import KeySearches
from tidings.node.tracing.names import consumer_name, subscriber_name
from tidings.node.tracing.reasons import PresentReasons
from tidings.node.tracing.searches import Tracing
from tidings.overlay.effects import Router
from tidings.tracking.query.codec import WhyQuestion
from tidings.tracking.recording.attachments import Attachment, AttachmentKind
from tidings.tracking.recording.history import HistoryKind
from tidings.tracking.recording.losses import loss_peer
from tidings.tracking.recording.recorder import (
    Effect,
    Recorder,
    StoreAttachment,
    StoreEntries,
    StoreKeys,
    TrackingSettings,
)
from tidings.tracking.trace_answer import KeyAnswer, KeyQuery, TraceAnswer

CONSUMER_IDLE_MS = 60_000
SEVERAL_CONSUMERS = (MailboxKind.QUEUE, MailboxKind.SHARED, MailboxKind.SHARED_DURABLE)


class Tracking:
    def __init__(
        self,
        plane: TrackingPlane,
        settings: TrackingSettings,
        outbox: AnswerBatch,
        network: Network | None,
        clients: Mapping[int, Connection],
        service: MailboxService,
        *,
        broker: int,
        incarnation: int,
    ) -> None:
        self._plane, self._outbox, self._network, self._clients = plane, outbox, network, clients
        self._now_ms, self._service = 0, service
        self.skew_ms = settings.skew_ms  # T_s
        self._backend = settings.kernel_backend(broker, incarnation)
        if self._backend is not None:
            plane.use_tracker(self._backend.tracker)
            self._backend.know_brokers((broker,))
        self.recorder = Recorder(broker, settings, incarnation, self._backend)
        service.records_losses = self._backend is not None
        post = None if network is None else network.datagrams
        present = PresentReasons(service, clients)
        self.tracing = Tracing(broker, post, self._inquire, outbox.answer, present.about)
        self.key_searches = KeySearches(broker, post, self._inquire_key, outbox.answer)
        self._names: dict[int, str] = {}  # of connections with subscriptions
        self._sinks: Counter[int] = Counter()  # how many each of them has
        self._attached: Counter[str] = Counter()  # subscribers, and through how many connections
        self._consumers: dict[str, int] = {}  # that were given something from a mailbox, and when last
        self._publishers: dict[int, tuple[int, str]] = {}  # of each connection: its number, and who it is
        self._known: set[int] = {broker}  # brokers
        self._later: list[Effect] = []  # of publishers: stored with the next tick

    def start(self, now_ms: int, past: Iterable[Attachment], stored_ms: Mapping[int, int]) -> None:
        self._emit(self.recorder.start(now_ms, past, stored_ms))

    def settle(
        self,
        now_ms: int,
        direct: list[tuple[bool, int]],
        mailboxes: list[tuple[bool, Mailbox]],
    ) -> None:
        """The end of a turn: who came and who left, and what other brokers ask."""
        effects: list[Effect] = []
        self._now_ms = now_ms
        if self._network is not None:
            neighbours, self._network.neighbour_changes = self._network.neighbour_changes, []
            for came, router in neighbours:
                change = self.recorder.attach if came else self.recorder.detach
                effects += change(AttachmentKind.NEIGHBOUR, str(router), now_ms)
            if self._network.scheme_forwarding.passed:
                self._record(now_ms, self._network.scheme_forwarding.take_passed())
            for source, payload in self._network.datagrams.take(TRACE_KINDS):
                self.tracing.datagram(now_ms, source, payload)
            for source, payload in self._network.datagrams.take(KEY_KINDS):
                self.key_searches.datagram(now_ms, source, payload)
        if self._backend is not None:
            for added, connection in direct:
                effects += self._subscribed(now_ms, connection, self._clients.get(connection), added)
            for added, mailbox in mailboxes:
                if mailbox.kind is MailboxKind.PRIVATE:
                    connection = _owner(mailbox)
                    effects += self._subscribed(now_ms, connection, self._clients.get(connection), added)
                else:
                    effects += self._change(now_ms, mailbox.name, added)
        self._emit(effects)

    def take_losses(self, now_ms: int) -> None:
        """Record what mailboxes have lost since."""
        assert self._backend is not None
        losses, self._service.losses = self._service.losses, []
        for mailbox, cause, id in losses:
            name = self._names.get(_owner(mailbox), "") if mailbox.kind is MailboxKind.PRIVATE else mailbox.name
            if name in self._attached:
                self._backend.add(HistoryKind.DELIVER, loss_peer(name, cause), id, now_ms)

    def _record(self, now_ms: int, passed: list[tuple[bytes, Router | None]]) -> None:
        """Record what a scheme has carried, which the plane knows nothing of."""
        if self._backend is None:
            return
        for id, to in passed:
            kind, peer = (HistoryKind.ROUTE, "") if to is None else (HistoryKind.FORWARD, str(to))
            self._backend.add(kind, peer, id, now_ms)

    def published_by(self, now_ms: int, connection: int, number: int, address: str) -> None:
        """A client has logged in, and makes ids with this number."""
        client = self._clients.get(connection)
        if self._backend is None or client is None:
            return
        about = f"user {client.principal.name!r}, client {client.client_id!r}, from {address or 'unknown'}"
        self._publishers[connection] = number, about
        self._later += self.recorder.publisher(number, about, now_ms, attached=True)

    def lost(self, connection: int) -> None:
        if connection in self._publishers:
            number, about = self._publishers.pop(connection)
            self._later += self.recorder.publisher(number, about, self._now_ms, attached=False)

    def delivered(self, now_ms: int, mailbox: Mailbox, consumer: int, messages: list[bytes]) -> None:
        """Given out to a consumer, by its connection."""
        if self._backend is None:
            return
        private = mailbox.kind is MailboxKind.PRIVATE
        name = self._names.get(_owner(mailbox), "") if private else mailbox.name
        if name not in self._attached:
            return
        ids = b"".join(message[ID] for message in messages)
        self._backend.add(HistoryKind.DELIVER, name, ids, now_ms)
        client = self._clients.get(consumer)
        if client is not None and mailbox.kind in SEVERAL_CONSUMERS:
            one = consumer_name(name, client)
            if one not in self._consumers:
                self._emit(self.recorder.attach(AttachmentKind.SUBSCRIBER, one, now_ms))
            self._consumers[one] = now_ms
            self._backend.add(HistoryKind.DELIVER, one, ids, now_ms)

    def tick(self, now_ms: int) -> None:
        """A few times a second: what is full or due, and questions that nobody answers."""
        self._now_ms = now_ms
        later, self._later = self._later, []
        self._emit([*later, *self.recorder.tick(now_ms, full=False), *self._idle(now_ms)])
        self._meet()
        self.tracing.tick(now_ms)
        self.key_searches.tick(now_ms)

    def _meet(self) -> None:
        """Let the backend know brokers that are new here."""
        if self._network is not None and self._backend is not None:
            fresh = set(self._network.datagrams.reachable()) - self._known
            if fresh:
                self._known |= fresh
                self._backend.know_brokers(fresh)

    def _idle(self, now_ms: int) -> list[Effect]:
        """Consumers that were given nothing for a while are detached until they are."""
        idle = [one for one, last_ms in self._consumers.items() if abs(now_ms - last_ms) > CONSUMER_IDLE_MS]
        for one in idle:
            del self._consumers[one]
        return [effect for one in idle for effect in self.recorder.detach(AttachmentKind.SUBSCRIBER, one, now_ms)]

    def close(self, now_ms: int) -> None:
        later, self._later = self._later, []
        self._emit([*later, *self.recorder.close(now_ms)])

    def resolved(self, now_ms: int, number: int, answer: TraceAnswer | KeyAnswer) -> None:
        if isinstance(answer, KeyAnswer):
            self.key_searches.resolved(now_ms, number, answer)
        else:
            self.tracing.resolved(now_ms, number, answer)

    def _inquire(self, now_ms: int, number: int, message: MessageId, why: WhyQuestion) -> None:
        self._emit(self.recorder.tick(now_ms))  # what is full is on its way to the archive before the question is
        self._outbox.add(Inquire(number, self.recorder.ask(message, why.subscriber)))

    def _inquire_key(self, now_ms: int, number: int, query: KeyQuery) -> None:
        self._emit(self.recorder.tick(now_ms))
        self._outbox.add(Inquire(number, query))

    def _subscribed(self, now_ms: int, connection: int, client: Connection | None, added: bool) -> list[Effect]:
        """One subscription of a client more, or one fewer."""
        assert self._backend is not None
        if added and client is not None:
            self._sinks[connection] += 1
            if self._sinks[connection] > 1:
                return []
            name = self._names[connection] = subscriber_name(client)
            effects = self._change(now_ms, name, True)
            self._plane.set_subscriber(connection, self._backend.number(name))
            return effects
        if connection not in self._names:
            return []
        self._sinks[connection] -= 1
        if self._sinks[connection]:
            return []
        del self._sinks[connection]
        self._plane.set_subscriber(connection, 0)
        return self._change(now_ms, self._names.pop(connection), False)

    def _change(self, now_ms: int, name: str, added: bool) -> list[Effect]:
        self._attached[name] += 1 if added else -1
        if self._attached[name] == int(added):  # the first, or the last
            if added:
                return self.recorder.attach(AttachmentKind.SUBSCRIBER, name, now_ms)
            del self._attached[name]
            return self.recorder.detach(AttachmentKind.SUBSCRIBER, name, now_ms)
        return []

    def _emit(self, effects: list[Effect]) -> None:
        changes = tuple(effect.change for effect in effects if isinstance(effect, StoreAttachment))
        entries = tuple(effect.entry for effect in effects if isinstance(effect, StoreEntries))
        keys = tuple(effect.batch for effect in effects if isinstance(effect, StoreKeys))
        if changes or entries or keys:
            self._outbox.add(Track(changes, entries, keys))


def _owner(mailbox: Mailbox) -> int:
    """The connection that a private mailbox belongs to (`subscribing.plan` makes the name)."""
    return int(mailbox.name.split(":")[1])
