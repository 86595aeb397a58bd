"""Joins what a broker does with clients' requests, mailboxes, the network and tracking. Only the engine calls it.

Everything asked of it is finished by `turn`, which returns effects. The path of plain messages never comes here; the
node only installs sinks for it in the plane.
"""

from collections.abc import Collection, Iterable, Mapping
from random import Random

from tidings.delivery.store import Recovered
from tidings.errors import TidingsError
from tidings.kernel.events import Transacted
from tidings.model.predicate import Predicate
from tidings.model.type_topics import is_event
from tidings.node.advertising import Advertising
from tidings.node.alone import Alone
from tidings.node.brakes import Brakes
from tidings.node.completer import Completer
from tidings.node.desk import Desk
from tidings.node.effects import NodeEffect, Persist
from tidings.node.event_post import EventPost
from tidings.node.giving_out import GivingOut
from tidings.node.journal import Journal
from tidings.node.loading import Loading
from tidings.node.network import Network
from tidings.node.network_settings import NetworkSettings
from tidings.node.outbox import Outbox
from tidings.node.plane import NetworkPlane
from tidings.node.post_office import PostOffice
from tidings.node.publishing import Publishing
from tidings.node.requests import (
    Ack,
    AddType,
    Advertise,
    AdvertiseType,
    Credit,
    Failed,
    ReadRetained,
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
from tidings.node.retaining import Retaining
from tidings.node.session import Connection, MailboxSubscription, Principal
from tidings.node.settings import Settings
from tidings.node.tracking import Tracking
from tidings.node.transit import Transit
from tidings.node.type_book import NetworkTypes, NoTypes, OwnTypes, TypeBook
from tidings.node.type_desk import TypeDesk
from tidings.node.watched import WatchedPlane
from tidings.tracking.attachments import Attachment
from tidings.tracking.record import Settings as TrackingSettings
from tidings.tracking.strategies import NoStrategy


class Node:
    def __init__(
        self,
        plane: NetworkPlane,
        settings: Settings,
        network: NetworkSettings | None = None,
        *,
        tracking: TrackingSettings | None = None,
        incarnation: int = 1,
        rng: Random | None = None,
    ) -> None:
        self.connections: dict[int, Connection] = {}
        self._watched = watched = WatchedPlane(plane)
        pieces = settings.pieces
        self._journal = journal = Journal(pieces.later_changes, pieces.changes_bytes_max)
        self._outbox = outbox = Outbox()
        self.brakes = Brakes(plane)
        self.post_office = office = PostOffice(watched, journal, self.brakes, settings, outbox)
        self.retaining = Retaining(office, journal, outbox, settings)
        self.network: Network | None = None
        if network is not None:
            assert rng is not None, "links wait for random times"
            transit = Transit(
                plane,
                journal,
                office,
                network.router,
                hops_max=network.hops_max,
                window_bytes=network.window_bytes,
                memory_bytes_max=pieces.transit_bytes_max,
                load_max=pieces.load_messages,
            )
            post = EventPost(journal, office, pieces.events_bytes_max, load_max=pieces.load_messages)
            self.network = Network(plane, network, transit, post, incarnation, rng)
        self.publishing = Publishing(plane, office, journal, outbox, self.brakes, settings, self.network)
        self._desk = Desk(watched, office, journal, outbox, settings, self.publishing)
        self.acknowledged = self._desk.consuming.acknowledged  # the usual `Ack`, without the form
        self._completer = Completer(journal, outbox, office, self.publishing, self._desk, self.retaining, self.network)
        self._own_types = OwnTypes(journal, outbox)
        self._types = TypeDesk(self._type_book(), outbox, self.brakes)
        self._advertising = Advertising(outbox, self._advertise)
        self.tracking = Tracking(
            plane,
            tracking or TrackingSettings(NoStrategy()),
            outbox,
            self.network,
            broker=settings.broker_id,
            incarnation=incarnation,
        )
        self.alone = Alone(journal, office, plane, self.tracking)
        self._giving_out = GivingOut(plane, office, self._desk.consuming, self.tracking)
        self._loading = Loading(office, self._desk.queues, self.retaining, self.network, outbox)

    def _type_book(self) -> TypeBook:
        if self.network is None:
            return self._own_types
        if self.network.carriage.events is None:
            return NoTypes(self.network.settings.scheme, self._outbox)
        return NetworkTypes(self.network, self._journal, self._outbox)

    def recover(self, recovered: Recovered, now: float = 0.0) -> None:
        """Stand where the store says we stood; `now` is the time of the links."""
        self._own_types.recover(recovered)
        self.post_office.recover(recovered)
        self.retaining.recover(recovered)
        self._desk.transactions.once.recover(recovered.notes)
        if self.network is not None:
            self.network.recover(now, recovered)
            self._journal.change(self.network.incarnation_note())

    def start_tracking(
        self, now_ms: int, past: Iterable[Attachment] = (), stored_ms: Mapping[int, int] | None = None
    ) -> None:
        """After `recover`: what earlier processes have recorded (`Recorder.start`)."""
        self.tracking.start(now_ms, past, stored_ms or {})

    def connected(self, connection: int, principal: Principal, client_id: str) -> None:
        self.connections[connection] = Connection(connection, principal, client_id)
        self._outbox.connected.add(connection)

    def lost(self, connection: int) -> None:
        """The client has left, with or without a farewell."""
        gone = self.connections.pop(connection, None)
        if gone is not None:
            self._outbox.connected.discard(connection)
            self.brakes.forget(connection)
            gone.gone = True
            self._desk.lost(gone)
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
            self._desk.carry_out(now_ms, client, request)
        elif isinstance(request, Trace):
            self.tracking.tracing.start(now_ms, client, request)
        elif isinstance(request, Retain | ReadRetained | Release):
            self.retaining.carry_out(client, request)
        elif isinstance(request, AddType | RemoveType | ShowTypes | AdvertiseType | UnadvertiseType):
            self._types.carry_out(client, request)
        elif isinstance(request, Advertise | Unadvertise):
            self._advertising.carry_out(client, request)
        elif isinstance(request, Subscribe) and request.type:
            self._types.subscribe(client, request, lambda found: self._desk.carry_out(now_ms, client, found))
        else:
            self._desk.carry_out(now_ms, client, request)

    def _advertise(self, made: bool, predicate: Predicate) -> bool:
        return self.network is not None and self.network.carriage.advertise(made, predicate)

    def transacted(self, now_ms: int, event: Transacted) -> None:
        """A message of a session in a transaction, which waits for the commit; or an event of a type."""
        session, receipt, message = event.session, event.receipt, event.message
        client = self.connections[event.connection]
        try:
            if is_event(message):
                self._types.check(client, message)
                if session == 0 and session not in client.transactions:
                    self.publishing.event(now_ms, event.connection, receipt, message)
                    return
            self._desk.transactions.add(client, session, receipt, message)
        except TidingsError as error:
            client.spoil(session, error)
            self._outbox.refused(event.connection, receipt, error)

    def room(self, connection: int) -> None:
        """The connection can take more again."""
        client = self.connections.get(connection)
        for subscription in () if client is None else client.subscriptions.values():
            if isinstance(subscription, MailboxSubscription):
                self.post_office.touch(subscription.mailbox)

    def persisted(self, ticket: int, error: TidingsError | None) -> list[NodeEffect]:
        """A batch is on disk, or refused: receipts, which need not wait for what else follows."""
        self._completer.finished(ticket, error)
        return self._outbox.take()

    def loaded(
        self, now_ms: int, asked: Collection[int], messages: Mapping[int, bytes], damaged: Iterable[int] = ()
    ) -> None:
        """What the store was asked for, what it found, and what it can never bring."""
        self._loading.loaded(now_ms, asked, messages, damaged)

    @property
    def idle(self) -> bool:
        """Nothing waits to be written."""
        return self._journal.idle

    def tick(self, now_ms: int) -> None:
        """About once a second: look for what has expired; `turn` and `retry` follow."""
        self._loading.tick()
        self.post_office.tick(now_ms)
        self._desk.queues.settle(now_ms)
        self.retaining.tick(now_ms)
        if self.network is not None:
            self.network.tick(now_ms, self._journal)

    def retry(self) -> list[Persist]:
        """Try again what could not be written, and write what nobody waits for."""
        return self._completer.flush(retry=True)

    def turn(self, now_ms: int) -> list[NodeEffect]:
        """The end of each step: write, give out, answer, hold or release publishers."""
        writes = self._completer.flush()
        if self._at_rest():
            return [*writes, *self._outbox.take()]
        if self.network is not None or self._watched.changes or self.post_office.mailboxes.changes:
            self._note_changes(now_ms)
        wanted = self._loading.wanted()
        wanted += self._giving_out.round(now_ms)
        if wanted or self.retaining.reads:
            self._loading.ask(wanted)
        writes += self._completer.flush()
        if self.brakes.held or self.post_office.overflow.slow:
            self.publishing.relieve(now_ms)
            self.post_office.overflow.relieve(now_ms)
        self.post_office.depot.shrink()
        return [*writes, *self._outbox.take()]

    def _at_rest(self) -> bool:
        """Nothing to give out, to fetch, to tell others or to let go: so it is in most turns of a broker on its own."""
        return (
            self.network is None
            and self.post_office.at_rest
            and not (self.brakes.held or self._watched.changes or self._desk.queues.jobs or self.retaining.reads)
        )

    def _note_changes(self, now_ms: int) -> None:
        """Who came and who left, as other brokers and tracking want to know."""
        changes = self._watched.take_changes()
        self._own_types.changed(changes)
        if self.network is not None:
            self.network.settle(now_ms, changes)
        self.tracking.settle(
            now_ms, self.connections, self._watched.take_direct(), self.post_office.mailboxes.take_changes()
        )
