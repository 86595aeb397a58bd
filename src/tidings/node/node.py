"""A broker as a machine without sockets, clock or disk.

Three doors in: `request` (what a client asks for), `message` and `transacted` (what the forwarding plane could not
finish by itself), and the completions of earlier effects (`persisted`, `loaded`). One door out: the effects a driver
must carry out. The path of plain messages never comes here; the node only installs sinks for it in the plane.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from random import Random

from tidings.delivery.mailbox import Consumer, Mailbox
from tidings.delivery.store import Recovered
from tidings.errors import TidingsError
from tidings.kernel.forwarder import EventTuple, Kind
from tidings.model.predicate import Predicate
from tidings.model.type_topics import is_event
from tidings.node.advertising import Advertising
from tidings.node.alone import Alone
from tidings.node.brakes import CROWD, LINKS, Brakes
from tidings.node.desk import Desk
from tidings.node.effects import Effect, Load, Log
from tidings.node.encoded import ID, PERSISTENT, QUEUE, expires_ms_of
from tidings.node.event_post import EventPost
from tidings.node.journal import Journal
from tidings.node.network import Network
from tidings.node.network_settings import NetworkSettings
from tidings.node.outbox import Outbox
from tidings.node.plane import NetworkPlane
from tidings.node.post_office import PostOffice
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
from tidings.tracking.record import Answer
from tidings.tracking.record import Settings as TrackingSettings
from tidings.tracking.strategies import NoStrategy

PERHAPS_SENT = 1  # flag of a PUBLISH frame: sent again after a broken connection


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
        self.settings = settings
        self.connections: dict[int, Connection] = {}
        self._plane = plane
        self._watched = watched = WatchedPlane(plane)
        self._journal = Journal()
        self._outbox = Outbox()
        self.brakes = Brakes(plane)
        self.post_office = PostOffice(watched, self._journal, self.brakes, settings, self._outbox)
        self._desk = Desk(watched, self.post_office, self._journal, self._outbox, settings, self._abroad)
        self.acknowledged = self._desk.consuming.acknowledged  # the usual `Ack`, without the form
        self.retaining = Retaining(self.post_office, self._journal, self._outbox, settings)
        self._loading: set[int] = set()
        self._for_readers: set[int] = set()  # of these, what no mailbox waits for
        self._absent: set[int] = set()  # the store could not bring them: to be asked again at the next tick
        self.network: Network | None = None
        if network is not None:
            assert rng is not None, "links wait for random times"
            transit = Transit(
                plane,
                self._journal,
                self.post_office,
                network.router,
                hops_max=network.hops_max,
                window_bytes=network.window_bytes,
            )
            post = EventPost(self._journal, self.post_office)
            self.network = Network(plane, network, transit, post, incarnation, rng)
        self._own_types = OwnTypes(self._journal)
        self._types = TypeDesk(self._type_book(), self._outbox, self.brakes)
        self._advertising = Advertising(self._outbox, self._advertise)
        self.tracking = Tracking(
            plane,
            tracking or TrackingSettings(NoStrategy()),
            self._outbox,
            self.network,
            broker=settings.broker_id,
            incarnation=incarnation,
        )
        self.alone = Alone(self._journal, self.post_office, plane, self.tracking)

    def _type_book(self) -> TypeBook:
        if self.network is None:
            return self._own_types
        if self.network.events is None:
            return NoTypes(self.network.settings.scheme)
        return NetworkTypes(self.network, self._journal)

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

    def track(self, now_ms: int) -> list[Effect]:
        """A few times a second: store what was recorded, look after traces."""
        self.tracking.tick(now_ms)
        return self.turn(now_ms)

    def resolved(self, now_ms: int, number: int, answer: Answer) -> list[Effect]:
        """What the archive says to an inquiry."""
        self.tracking.resolved(now_ms, number, answer)
        return self.turn(now_ms)

    def stop_tracking(self, now_ms: int) -> list[Effect]:
        """Store all that was recorded: the process ends."""
        self.tracking.close(now_ms)
        return self.turn(now_ms)

    def connected(self, connection: int, principal: Principal, client_id: str = "") -> None:
        self.connections[connection] = Connection(connection, principal, client_id)
        self._outbox.connected.add(connection)

    def lost(self, now_ms: int, connection: int) -> list[Effect]:
        """The connection is gone, with or without a farewell."""
        gone = self.connections.pop(connection, None)
        if gone is not None:
            self._outbox.connected.discard(connection)
            self.brakes.forget(connection)
            gone.gone = True
            self._desk.lost(gone)
            self._types.lost(gone)
            self.retaining.lost(connection)
            self._advertising.lost(connection)
        return self.turn(now_ms)

    def request(self, now_ms: int, connection: int, request: Request) -> list[Effect]:
        self.asked(now_ms, connection, request)
        return self.turn(now_ms)

    def asked(self, now_ms: int, connection: int, request: Request) -> None:
        """One of several requests. Call `turn` after the last one."""
        try:
            client = self.connections[connection]
            match request:
                case Ack() | Credit():  # the most frequent ones
                    self._desk.carry_out(now_ms, client, request)
                case Trace():
                    self.tracking.tracing.start(now_ms, client, request)
                case Retain() | ReadRetained() | Release():
                    self.retaining.carry_out(client, request)
                case AddType() | RemoveType() | ShowTypes() | AdvertiseType() | UnadvertiseType():
                    self._types.carry_out(client, request)
                case Subscribe() if request.type:
                    self._types.subscribe(client, request, lambda found: self._desk.carry_out(now_ms, client, found))
                case Advertise() | Unadvertise():
                    self._advertising.carry_out(client, request)
                case _:
                    self._desk.carry_out(now_ms, client, request)
        except TidingsError as error:
            self._outbox.answer(connection, Failed(getattr(request, "receipt", 0), error.alone()))

    def _advertise(self, made: bool, predicate: Predicate) -> bool:
        return self.network is not None and self.network.advertise(made, predicate)

    def message(
        self,
        connection: int,
        receipt: int,
        message: bytes,
        sinks: Iterable[int],
        *,
        expires_ms: int = 0,
        perhaps_sent: bool = False,
    ) -> None:
        """A message that mailboxes wait for. Call `turn` after the last one of a batch."""
        self._post(
            connection,
            message,
            sinks,
            expires_ms,
            perhaps_sent,
            lambda: self._outbox.accepted(connection, receipt),
            lambda error: self._outbox.refused(connection, receipt, error),
        )

    def refuse(self, connection: int, receipt: int, error: TidingsError) -> None:
        """A message could not be written (`alone`). Call `turn` then."""
        self._outbox.refused(connection, receipt, error)

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
            self.post_office.accept(
                message,
                self.post_office.mailboxes.for_message(message, sinks),
                expires_ms=expires_ms,
                publisher=connection,
                perhaps_sent=perhaps_sent,
                done=done,
                failed=failed,
            )
        except TidingsError as error:
            failed(error.alone())
        if self._crowded(1.0):
            self.brakes.hold(connection, CROWD)

    def from_network(self, now_ms: int, event: EventTuple) -> None:
        """An event of the plane that only a network causes. Call `turn` after the last one of a batch."""
        assert self.network is not None
        match event:
            case (Kind.ARRIVED, _, expires_ms, message, sinks):
                mailboxes = self.post_office.mailboxes.for_message(message, sinks)
                self.post_office.accept(message, mailboxes, expires_ms=expires_ms)
            case (Kind.RELAY, link, hops, tag, routers, expires_ms, message):
                self.network.relayed(now_ms, link, hops, tag, routers, expires_ms, message)
            case (Kind.ENTRY, connection, flags, receipt, expires_ms, message, sinks, routers):
                if routers:
                    self.network.transit.accept(message, routers, expires_ms)
                else:
                    self._enter(self.network, now_ms, message, connection)
                errors: list[TidingsError] = []
                perhaps_sent = bool(flags & PERHAPS_SENT)
                self._post(connection, message, sinks, expires_ms, perhaps_sent, None, errors.append)
                self._journal.then(  # the receipt is for both: what is kept here, and what others are to get
                    lambda: self._answered(connection, receipt, errors),
                    lambda error: self._outbox.refused(connection, receipt, error),
                )

    def _answered(self, connection: int, receipt: int, errors: list[TidingsError]) -> None:
        if errors:
            self._outbox.refused(connection, receipt, errors[0])
        else:
            self._outbox.accepted(connection, receipt)

    def _enter(self, network: Network, now_ms: int, message: bytes, connection: int) -> None:
        network.enter(now_ms, message, connection)
        if network.congested(1.0) and connection in self.connections:
            self.brakes.hold(connection, LINKS)

    def _abroad(self, now_ms: int, connection: int, message: bytes) -> Callable[[], None] | None:
        """A message of a transaction, for other brokers: what is persistent is stored in the same batch."""
        if self.network is None or message[1] & QUEUE:
            return None
        if self.network.events is not None and message[1] & PERSISTENT and is_event(message):
            self.network.event_post.accept(message)
            return None
        if not message[1] & PERSISTENT:
            network = self.network
            return lambda: self._enter(network, now_ms, message, connection)
        if routers := self._plane.destinations(message):
            self.network.transit.accept(message, routers, expires_ms_of(message))
        return None

    def transacted(self, now_ms: int, connection: int, session: int, receipt: int, message: bytes) -> None:
        """A message of a session in a transaction, which waits for the commit; or an event of a type."""
        client = self.connections[connection]
        try:
            if is_event(message):
                self._types.check(client, message)
                if session == 0 and session not in client.transactions:
                    self._publish_event(now_ms, client, receipt, message)
                    return
            self._desk.transactions.add(client, session, receipt, message)
        except TidingsError as error:
            client.spoil(session, error)
            self._outbox.refused(connection, receipt, error)

    def _publish_event(self, now_ms: int, client: Connection, receipt: int, message: bytes) -> None:
        """An event that fits its type. One that was sent before and is safe, as after a broken connection, is not sent
        again."""
        persistent = bool(message[1] & PERSISTENT)
        known = message[ID] in self.post_office.repeats.recent
        if self.network is not None and persistent and not known:
            known = not self.network.transit.saw(message[ID])
        expires_ms = expires_ms_of(message)
        if known or 0 < expires_ms <= now_ms:
            self._journal.then(lambda: self._outbox.accepted(client.number, receipt))
            return
        mailboxes = self.post_office.mailboxes.for_message(message, self._plane.match(message))
        publish = self._desk.transactions.prepare(now_ms, client.number, message, mailboxes)

        def published() -> None:
            publish()
            self._outbox.accepted(client.number, receipt)

        self._journal.then(published, lambda error: self._outbox.refused(client.number, receipt, error))
        if self._crowded(1.0):
            self.brakes.hold(client.number, CROWD)

    def room(self, now_ms: int, connection: int) -> list[Effect]:
        """The connection can take more again."""
        client = self.connections.get(connection)
        for subscription in () if client is None else client.subscriptions.values():
            if isinstance(subscription, MailboxSubscription):
                self.post_office.touch(subscription.mailbox)
        return self.turn(now_ms)

    def persisted(self, ticket: int, error: TidingsError | None) -> list[Effect]:
        """A batch is on disk, or refused: receipts, which need not wait for what else follows. Call `turn` then."""
        self._journal.finished(ticket, error)
        return self._outbox.take()

    def loaded(
        self, now_ms: int, asked: Collection[int], messages: dict[int, bytes], damaged: Iterable[int] = ()
    ) -> list[Effect]:
        """What was asked for and what was found; the rest is asked for again later, but for what is damaged."""
        lost = tuple(damaged)
        self._loading.difference_update(asked)
        self._absent.update(seq for seq in asked if seq not in messages and seq not in lost)
        if lost:
            self._outbox.add(Log("ERROR", "messages in the store are damaged and were given up", {"seqs": lost}))
            self.post_office.lost(lost)
            self.retaining.gave_up(lost)
            self._desk.queues.lost(lost)
        self.retaining.loaded(asked, messages)
        given = {seq: message for seq, message in messages.items() if seq not in self._for_readers}
        self._for_readers.difference_update(asked)
        if messages:
            if self.network is not None:
                self.network.transit.loaded(given)
                self.network.event_post.loaded(given)
            self.post_office.loaded(now_ms, given)
            self._desk.queues.loaded(now_ms, messages)
        return self.turn(now_ms)

    @property
    def idle(self) -> bool:
        """Nothing waits to be written."""
        return self._journal.idle

    def tick(self, now_ms: int) -> list[Effect]:
        """About once a second: look for what has expired, and try again what could not be written."""
        self._absent.clear()
        self.post_office.tick(now_ms)
        self._desk.queues.settle(now_ms)
        self.retaining.tick(now_ms)
        if self.network is not None:
            self.network.tick(self._journal)
        return [*self.turn(now_ms), *self._journal.flush(retry=True)]

    def turn(self, now_ms: int) -> list[Effect]:
        """The end of each door: write, give out, answer, hold or release publishers."""
        writes = self._journal.flush()
        if self._at_rest():
            return [*writes, *self._outbox.take()]
        if self.network is not None or self._watched.changes or self.post_office.mailboxes.changes:
            self._note_changes(now_ms)
        self._dispatch(now_ms)
        writes += self._journal.flush()
        self._relieve(now_ms)
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

    def _dispatch(self, now_ms: int) -> None:
        wanted = [*self.post_office.unread(), *self._desk.queues.wanted()]
        if self.network is not None:
            wanted += self.network.transit.take_wanted()
            wanted += self.network.event_post.wanted()
        for mailbox in self.post_office.take_touched():
            self._dispatch_mailbox(now_ms, mailbox)
            wanted += mailbox.wanted
        read = [seq for seq in self.retaining.wanted() if seq not in self._loading]
        if read:
            self._for_readers.update(set(read).difference(wanted))
            wanted += read
        if not wanted:
            return
        missing = tuple(seq for seq in dict.fromkeys(wanted) if seq not in self._loading and seq not in self._absent)
        if missing:
            self._loading.update(missing)
            self._outbox.add(Load(missing))

    def _dispatch_mailbox(self, now_ms: int, mailbox: Mailbox) -> None:
        while self._give_out(now_ms, mailbox):
            pass

    def _give_out(self, now_ms: int, mailbox: Mailbox) -> bool:
        """One round; True if there may be more to give. Room is asked for even if it seems used up: only who has asked
        in vain is told when there is some again."""
        if mailbox.backlog:
            for consumer in mailbox.consumers:
                consumer.room_bytes = self._plane.room(consumer.connection)
        runs: dict[Consumer, tuple[list[int], list[int], list[bytes]]] = {}
        for consumer, tag, attempt, message in mailbox.dispatch(now_ms):
            run = runs.get(consumer)
            if run is None:
                run = runs[consumer] = ([], [], [])
            run[0].append(attempt)
            run[1].append(tag)
            run[2].append(message)
        for consumer, (attempts, tags, messages) in runs.items():
            if consumer.settles:
                mailbox.taken_ms = now_ms
                self.post_office.finished(mailbox, mailbox.acknowledge(consumer, tags))
                consumer.credit += len(tags)
                tags = [0] * len(tags)
            self._plane.deliver(consumer.connection, consumer.subscription, attempts, tags, messages)
            self.tracking.delivered(now_ms, mailbox, messages)
        if mailbox.expired:
            self.post_office.late(mailbox, mailbox.expired)
        self._desk.consuming.drained(mailbox)
        return bool(runs and mailbox.backlog) and not mailbox.wanted

    def _relieve(self, now_ms: int) -> None:
        office = self.post_office
        if not self.brakes.held and not office.overflow.slow:
            return
        if self.brakes.holding(CROWD):
            if self._crowded(0.75):
                excess = office.depot.pinned_bytes - self.settings.messages_bytes_max * 3 // 4
                office.overflow.clear_stalled(now_ms, office.attended, excess)
            else:
                self.brakes.release(CROWD)
        if self.brakes.holding(LINKS) and not (self.network and self.network.congested(0.5)):
            self.brakes.release(LINKS)
        office.overflow.relieve(now_ms)

    def _crowded(self, share: float) -> bool:
        """Whether publishers must wait: too much on its way to disk, or too much that only memory has."""
        settings = self.settings
        return (
            self._journal.pending_bytes > settings.journal_bytes_max * share
            or self.post_office.depot.pinned_bytes > settings.messages_bytes_max * share
        )
