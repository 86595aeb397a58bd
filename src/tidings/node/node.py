"""Joins what a broker does with clients' requests, mailboxes, the network and tracking. Only the engine calls it.

Everything asked of it is finished by `turn`, which returns effects. The path of plain messages never comes here; the
node only installs sinks for it in the plane.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from random import Random

from tidings.delivery.policy import QueuePolicy
from tidings.delivery.store import Recovered
from tidings.errors import TidingsError
from tidings.kernel.events import Transacted
from tidings.model.event_type_topics import is_event
from tidings.model.predicate import Predicate
from tidings.node.clients.advertisements import Advertisements
from tidings.node.clients.answer_batch import AnswerBatch
from tidings.node.clients.delayed_messages import DelayedMessages, check_delayed, is_delayed
from tidings.node.clients.event_type_registry import EventTypeRegistry, LocalEventTypes, NetworkEventTypes, NoEventTypes
from tidings.node.clients.event_type_requests import EventTypeRequests
from tidings.node.clients.interest_spread import InterestSpread
from tidings.node.clients.publications import Publications
from tidings.node.clients.records_and_wills import ClientRecords
from tidings.node.clients.request_handler import RequestHandler
from tidings.node.clients.session import Connection, MailboxSubscription, Principal
from tidings.node.completer import Completer
from tidings.node.effects import NodeEffect, Persist
from tidings.node.mailboxes.backpressure import Backpressure
from tidings.node.mailboxes.dispatch import Dispatch
from tidings.node.mailboxes.journal import Journal
from tidings.node.mailboxes.mailbox_service import MailboxService
from tidings.node.mailboxes.message_loader import MessageLoader
from tidings.node.mailboxes.retained_subscriptions import RetainedSubscriptions
from tidings.node.mailboxes.sync_write import SyncWrite
from tidings.node.network.diversions import Diversions
from tidings.node.network.event_custody import EventCustody
from tidings.node.network.held_copies import HeldCopies
from tidings.node.network.network import Network
from tidings.node.network.relay_dedup import RelayDedup
from tidings.node.network.settings import NetworkSettings
from tidings.node.network.store_and_forward import StoreAndForward
from tidings.node.network_queues.network_queues import NetworkQueues
from tidings.node.observed_plane import ObservedPlane
from tidings.node.plane import NetworkPlane
from tidings.node.requests import (
    Ack,
    AddType,
    Advertise,
    AdvertiseType,
    Credit,
    Failed,
    FindMessages,
    Keep,
    Linger,
    ReadRetained,
    Recall,
    Release,
    RemoveType,
    Request,
    Retain,
    ShowTypes,
    Subscribe,
    Trace,
    Unadvertise,
    UnadvertiseType,
)
from tidings.node.settings import NodeSettings, Pieces
from tidings.node.tracing.recording import Tracking
from tidings.tracking.recording.attachments import Attachment
from tidings.tracking.recording.recorder import TrackingSettings as TrackingSettings
from tidings.tracking.recording.strategies import NoStrategy

CHANGES_MAX = 64  # of interests in one turn, before others come first: a connection that ends may have had very many


def _make_network(
    plane: NetworkPlane,
    settings: NetworkSettings,
    pieces: Pieces,
    journal: Journal,
    service: MailboxService,
    backpressure: Backpressure,
    incarnation: int,
    rng: Random,
) -> Network:
    held = HeldCopies(plane, journal, service, settings.empty_store, load_max=pieces.load_messages)
    store_and_forward = StoreAndForward(
        plane,
        journal,
        service,
        settings.router,
        hops_max=settings.hops_max,
        window_bytes=settings.window_bytes,
        memory_bytes_max=pieces.transit_bytes_max,
        load_max=pieces.load_messages,
        dedup=RelayDedup(pieces.relay_id_slots, pieces.relay_slot_ids, pieces.number_ranges_max),
        held=held,
    )
    post = EventCustody(journal, service, pieces.events_bytes_max, load_max=pieces.load_messages)
    diversions = Diversions(store_and_forward, service, journal)
    return Network(plane, settings, store_and_forward, post, held, diversions, backpressure, incarnation, rng)


class Node:
    def __init__(
        self,
        plane: NetworkPlane,
        settings: NodeSettings,
        network: NetworkSettings | None = None,
        *,
        tracking: TrackingSettings | None = None,
        incarnation: int = 1,
        rng: Random | None = None,
    ) -> None:
        self.connections: dict[int, Connection] = {}
        self._last_values = settings.last_values
        self._observed = observed = ObservedPlane(plane)
        pieces = settings.pieces
        self._journal = journal = Journal(pieces.later_changes, pieces.changes_bytes_max)
        self._outbox = outbox = AnswerBatch()
        self.backpressure = Backpressure(plane)
        self.mailbox_service = service = MailboxService(observed, journal, self.backpressure, settings, outbox)
        self.accounts = service.mailboxes.accounts
        self.retaining = RetainedSubscriptions(service, journal, outbox, settings)
        self.network: Network | None = None
        if network is not None:
            assert rng is not None, "links wait for random times"
            self.network = _make_network(plane, network, pieces, journal, service, self.backpressure, incarnation, rng)
        self._spread = None if self.network is None else InterestSpread(self.network)
        self.network_queues: NetworkQueues | None = None
        if self.network is not None:
            assert self._spread is not None
            common = self.connections, self._spread, settings.subscription_scope
            self.network_queues = NetworkQueues(self.network, service, journal, outbox, *common)
        self.publishing = Publications(plane, service, journal, outbox, self.backpressure, settings, self.network)
        self.delayed = DelayedMessages(plane, service, journal, outbox, self.publishing, load_max=pieces.load_messages)
        self.records = ClientRecords(observed, service, journal, outbox, self.publishing)
        handles = self.publishing, self.records, self.delayed, self._spread, self.network_queues
        self._request_handler = RequestHandler(
            observed, service, journal, outbox, settings, *handles, connections=self.connections
        )
        self.acknowledged = self._request_handler.consuming.acknowledged  # the usual `Ack`, without the form
        parts = self.publishing, self.delayed, self._request_handler, self.retaining, self.records
        self._completer = Completer(journal, outbox, service, *parts, self.network, self.network_queues)
        self._own_types = LocalEventTypes(journal, outbox)
        self._types = EventTypeRequests(self._event_type_registry(), outbox, self.backpressure, plane)
        self._advertising = Advertisements(outbox, self._advertise)
        tracked, broker = tracking or TrackingSettings(NoStrategy()), settings.broker_id
        self.tracking = Tracking(
            plane, tracked, outbox, self.network, self.connections, service, broker=broker, incarnation=incarnation
        )
        self.sync_write = SyncWrite(journal, service, plane, self.tracking)
        self._dispatch = Dispatch(plane, service, self._request_handler.consuming, self.tracking)
        self._loader = MessageLoader(
            service, self._request_handler.queues, self.retaining, self.delayed, self.network, outbox
        )

    def configure(self, policies: Sequence[QueuePolicy]) -> None:
        """Other policies of queues from now on."""
        self.mailbox_service.limits.configure(policies)
        if self.network_queues is not None:
            self.network_queues.configure()

    def leave(self, now: float) -> None:
        """Withdraw the interests of this broker from its network."""
        assert self.network is not None
        self.network.leave(now, self._observed.predicates())

    def _event_type_registry(self) -> EventTypeRegistry:
        if self.network is None:
            return self._own_types
        if self.network.scheme_forwarding.events is None:
            return NoEventTypes(self.network.settings.scheme, self._outbox)
        return NetworkEventTypes(self.network, self._journal, self._outbox)

    def recover(self, recovered: Recovered, now: float = 0.0) -> None:
        """Stand where the store says we stood; `now` is the time of the links."""
        self._own_types.recover(recovered)
        self.mailbox_service.recover(recovered)
        self.retaining.recover(recovered)
        self.records.recover(recovered)
        self.delayed.recover(recovered)
        if self._last_values:
            self.retaining.keep_last_values()
        self._request_handler.transactions.once.recover(recovered.notes)
        if self.network is not None:
            self.network.recover(now, recovered)
            self._journal.change(self.network.incarnation_note())
            self._journal.change(self.network.store_age.raised())
        if self.network_queues is not None:
            self.network_queues.recover(recovered)

    def start_tracking(
        self, now_ms: int, past: Iterable[Attachment] = (), stored_ms: Mapping[int, int] | None = None
    ) -> None:
        """After `recover`: what earlier processes have recorded (`Recorder.start`)."""
        self.tracking.start(now_ms, past, stored_ms or {})

    def connected(self, connection: int, principal: Principal, client_id: str) -> None:
        self.connections[connection] = Connection(connection, principal, client_id)
        self._outbox.connected.add(connection)

    def published_by(self, now_ms: int, connection: int, number: int, address: str) -> None:
        """The client was given this number for its messages' ids."""
        self.tracking.published_by(now_ms, connection, number, address)

    def lost(self, connection: int) -> None:
        """The client has left, with or without a farewell."""
        self.tracking.lost(connection)
        gone = self.connections.pop(connection, None)
        if gone is not None:
            self._outbox.connected.discard(connection)
            self.backpressure.forget(connection)
            gone.gone = True
            self._request_handler.lost(gone)
            self.records.lost(connection)
            self._types.lost(gone)
            self.retaining.lost(connection)
            self._advertising.lost(connection)

    def asked(self, now_ms: int, connection: int, request: Request) -> None:
        """One of several requests; `turn` follows the last one."""
        try:
            client = self.connections[connection]
            self._carry_out(now_ms, client, request)
        except TidingsError as error:
            self._outbox.answer(connection, Failed(getattr(request, "receipt", 0), error.alone()))

    def _carry_out(self, now_ms: int, client: Connection, request: Request) -> None:
        if isinstance(request, Ack | Credit):  # the most frequent ones
            self._request_handler.carry_out(now_ms, client, request)
        elif isinstance(request, Trace):
            self.tracking.tracing.start(now_ms, client, request)
        elif isinstance(request, FindMessages):
            self.tracking.key_searches.start(now_ms, client, request)
        elif isinstance(request, Retain | ReadRetained | Release):
            self.retaining.carry_out(now_ms, client, request)
        elif isinstance(request, Keep):
            self.records.keep(client, request)
        elif isinstance(request, Recall):
            self.records.recall(client, request)
        elif isinstance(request, Linger):
            self.records.linger(now_ms, client, request)
        elif isinstance(request, AddType | RemoveType | ShowTypes | AdvertiseType | UnadvertiseType):
            self._types.carry_out(client, request)
        elif isinstance(request, Advertise | Unadvertise):
            self._advertising.carry_out(client, request)
        elif isinstance(request, Subscribe) and request.type:
            self._types.subscribe(client, request, lambda found: self._request_handler.carry_out(now_ms, client, found))
        else:
            self._request_handler.carry_out(now_ms, client, request)

    def _advertise(self, made: bool, predicate: Predicate) -> bool:
        return self.network is not None and self.network.scheme_forwarding.advertise(made, predicate)

    def transacted(self, now_ms: int, event: Transacted) -> None:
        """A message of a session in a transaction, which waits for the commit; one for later; or an event of a type."""
        session, receipt, message = event.session, event.receipt, event.message
        client = self.connections[event.connection]
        try:
            if is_delayed(message):
                check_delayed(message)
            if is_event(message):
                if session == 0 and session not in client.transactions:
                    self._event(now_ms, client, event)
                    return
                self._types.check(client, message)
            if session == 0 and session not in client.transactions:
                self.delayed.accept(event.connection, receipt, message)
            else:
                self._request_handler.transactions.add(client, session, receipt, message)
        except TidingsError as error:
            client.spoil(session, error)
            self._outbox.refused(event.connection, receipt, error)

    def _event(self, now_ms: int, client: Connection, event: Transacted) -> None:
        try:
            self._types.check(client, event.message)
        except TidingsError as unchecked:

            def go_on(error: TidingsError | None) -> None:
                try:
                    if error is not None:
                        raise error
                    self._types.check(client, event.message)
                    self.publishing.event(now_ms, event.connection, event.receipt, event.message)
                except TidingsError as wrong:
                    self._outbox.refused(event.connection, event.receipt, wrong)

            if unchecked.code == "E_TYPE_UNADVERTISED" and self._types.imply(client, event.message, go_on):
                return
            raise
        self.publishing.event(now_ms, event.connection, event.receipt, event.message)

    def room(self, connection: int) -> None:
        """The connection can take more again."""
        client = self.connections.get(connection)
        for subscription in () if client is None else client.subscriptions.values():
            if isinstance(subscription, MailboxSubscription):
                self.mailbox_service.touch(subscription.mailbox)

    def persisted(self, ticket: int, error: TidingsError | None) -> list[NodeEffect]:
        """A batch is on disk, or refused: receipts, which need not wait for what else follows."""
        self._completer.finished(ticket, error)
        return self._outbox.take()

    def loaded(
        self, now_ms: int, asked: Collection[int], messages: Mapping[int, bytes], damaged: Iterable[int] = ()
    ) -> None:
        """Take an answer of the store: what was requested, what it found, and what it can never bring."""
        self._loader.loaded(now_ms, asked, messages, damaged)

    @property
    def idle(self) -> bool:
        """Nothing waits to be written."""
        return self._journal.idle

    @property
    def has_changes(self) -> bool:
        """True if a turn left changes of interests for the next one."""
        return bool(self._observed.changes)

    def tick(self, now_ms: int) -> None:
        """About once a second: look for what has expired; `turn` and `retry` follow."""
        self._loader.tick()
        self.mailbox_service.tick(now_ms)
        self._request_handler.queues.settle(now_ms)
        self.retaining.tick(now_ms)
        self.records.tick(now_ms)
        if self.network is not None:
            self.network.tick(now_ms, self._journal)
        if self._spread is not None:
            self._spread.tick()
        if self.network_queues is not None:
            self.network_queues.tick()

    def retry(self) -> list[Persist]:
        """Try again what could not be written, and write what nobody waits for."""
        return self._flush(retry=True)

    def _flush(self, *, retry: bool = False) -> list[Persist]:
        """Write what was gathered; with it the interests by which its messages were sent, if they are not written."""
        if self.network is not None and self._journal.leaving:
            self.network.note_interests(self._journal)
        return self._completer.flush(retry=retry)

    def answers(self, now_ms: int) -> list[NodeEffect] | None:
        """The answers to a subscription that needs no mailbox: the turn may follow after other requests.

        None: something is to be written, and the turn must follow now.
        """
        if not self._journal.empty or self.mailbox_service.mailboxes.changes:
            return None
        self.tracking.settle(now_ms, self._observed.take_direct(), [])  # what is published next may be for it
        return self._outbox.take()

    def turn(self, now_ms: int) -> list[NodeEffect]:
        """The end of each step: write, give out, answer, hold or release publishers."""
        if not self.records.at_rest:
            self.records.settle(now_ms)
        self.mailbox_service.wake(now_ms)
        writes = self._flush()
        if self.mailbox_service.losses:
            self.tracking.take_losses(now_ms)
        reading = self.delayed.turn(now_ms)
        if not reading and self._at_rest():
            return [*writes, *self._outbox.take()]
        if self.network is not None or self._observed.changes or self.mailbox_service.mailboxes.changes:
            self._note_changes(now_ms)
        wanted = self._loader.wanted()
        wanted += self._dispatch.round(now_ms)
        if wanted or self.retaining.busy:
            self._loader.ask(wanted)
        if self.network_queues is not None:
            self.network_queues.end_turn()
        writes += self._flush()
        if self.backpressure.held or self.mailbox_service.overflow.slow:
            self.publishing.relieve(now_ms)
            self.mailbox_service.overflow.relieve(now_ms)
        self.mailbox_service.message_cache.shrink()
        return [*writes, *self._outbox.take()]

    def _at_rest(self) -> bool:
        """Nothing to give out, to fetch, to tell others or to let go: so it is in most turns of a broker on its own."""
        return (
            self.network is None
            and self.mailbox_service.at_rest
            and not (
                self.backpressure.held
                or self._observed.changes
                or self._request_handler.queues.jobs
                or self.retaining.busy
            )
        )

    def _note_changes(self, now_ms: int) -> None:
        """Pass new and ended subscriptions to the routing scheme and to tracking."""
        changes = self._observed.take_changes(CHANGES_MAX)
        self._own_types.changed(changes)
        mailboxes = self.mailbox_service.mailboxes.take_changes()
        if self.network_queues is not None:
            self.network_queues.begin_turn(now_ms, mailboxes)
        if self.network is not None:
            self.network.settle(now_ms, changes)
            self._types.settle()
        if self._spread is not None:
            self._spread.settle()
        self.tracking.settle(now_ms, self._observed.take_direct(), mailboxes)
