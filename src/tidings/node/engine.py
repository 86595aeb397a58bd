"""The broker as one machine: everything that happens goes in by `step`, everything to be done comes out as effects.

    driver ──Input──► step ─┬─ events of the plane ──► client sessions, link sessions ─┐
       ▲                    ├─ completions, timers ──► node ◄──────────────────────────┘
       └──────Effect────────┴─ turn: write, give out, answer, release publishers

Drivers (the broker on asyncio, the simulator in virtual time, the tests' by hand) feed bytes to the forwarding plane,
bring inputs and carry out effects; none of them looks at an event. Plain messages never come here: the plane finishes
them alone. One step handles what one socket read brought, and ends with one turn of the node. Requests are dear, and
long ones more so: one step takes a bounded number of them (`REQUESTS_MAX`, where each REQUEST_BYTES count as one more).
The rest is put aside. That keeps the order of each client, because the plane reads nothing more of a client whose
request is not handled yet. A driver asks `has_requests`, beside the plane's `has_events`, and lets others go first.
`view` is for those who only look, `node` for checkers and tests.
"""

import traceback
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from random import Random
from typing import assert_never

from tidings.delivery.store import Recovered
from tidings.errors import RemoteProtocolError
from tidings.kernel.events import (
    Acknowledged,
    ClockDrift,
    CongestionChanged,
    ConnectionEvent,
    ControlFrame,
    CreditGiven,
    FrameError,
    MemoryShort,
    MessagesDropped,
    OutputRoom,
    PlaneEvent,
    PublishCheck,
    Published,
    PublishedToRouters,
    PublishedToScheme,
    Relayed,
    RemoteMessage,
    SlowConsumer,
    Transacted,
)
from tidings.kernel.forwarder import Forwarder
from tidings.node import inputs
from tidings.node.clients.client_sessions import ClientOptions, ClientSession, ClientSessions
from tidings.node.clients.clock_correction import ClientClocks
from tidings.node.clients.solo_publisher import SoloPublisher
from tidings.node.completions import ConfirmPublication
from tidings.node.effects import (
    Close,
    Effect,
    Inquire,
    LoadMessages,
    Log,
    NodeEffect,
    NotifyDropped,
    Persist,
    Reply,
    Track,
)
from tidings.node.inputs import Input, Now
from tidings.node.network.link_sessions import LinkSession, LinkSessions
from tidings.node.network.settings import NetworkSettings
from tidings.node.node import Node
from tidings.node.requests import Ack, Credit, Request, Subscribe
from tidings.node.settings import NodeSettings
from tidings.node.view import View
from tidings.overlay import effects as fx
from tidings.tracking.recording.attachments import Attachment
from tidings.tracking.recording.recorder import Recorder
from tidings.tracking.recording.recorder import TrackingSettings as TrackingSettings

ACK_CUMULATIVE = 1  # flag of an acknowledgement: and all before
ACK_FLAGS_MAX = 63  # all that there are
REQUESTS_MAX = 32  # of clients in one step, before others are read
REQUEST_BYTES = 256  # of a request that count as one more: a long selector takes as much time as many requests


class Engine:
    def __init__(
        self,
        plane: Forwarder,
        settings: NodeSettings,
        clients: ClientOptions,
        network: NetworkSettings | None = None,
        *,
        secret: bytes = b"",
        tracking: TrackingSettings | None = None,
        incarnation: int = 1,
        rng: Random | None = None,
        requests_max: int = REQUESTS_MAX,
    ) -> None:
        """`secret`: the network's, by which links prove themselves; empty: they need not."""
        self._plane = plane
        self.node = node = Node(plane, settings, network, tracking=tracking, incarnation=incarnation, rng=rng)
        self._out: list[Effect] = []
        clocks = ClientClocks(plane, node.tracking.skew_ms)
        self._clients = ClientSessions(plane, node, settings, clients, clocks, self._out, self._asked, self._turn)
        self._links = None if node.network is None else LinkSessions(plane, node.network, secret)
        self._solo = SoloPublisher(settings.pieces.solo_messages)
        self._alone: Published | None = None  # is being written alone
        self._handed_on = True  # what was written alone
        self._unfinished = False  # the node's turn is due
        self._shares_turn = False  # it is due at the end of the step: more such requests may come before
        self._requests_max = requests_max
        self._aside: deque[ControlFrame] = deque()  # requests that did not fit into a step, one of a client
        self.view = View(node, self._clients)

    @property
    def recorder(self) -> Recorder:
        """Answers inquiries from stored histories, which another thread may have it do."""
        return self.node.tracking.recorder

    @property
    def has_requests(self) -> bool:
        """True if requests wait for another step (`PlaneReady`), or what is left of a turn."""
        return bool(self._aside) or (self._unfinished and self._alone is None)

    def recover(self, now: Now, recovered: Recovered, recent: Iterable[bytes] = ()) -> None:
        """Restore the state from the store; called before the first step. `recent`:
        `publish_dedup.recent_ids`, so that a message that is sent again is known."""
        self.node.recover(recovered, now.steady_ms)
        self.node.mailbox_service.publish_dedup.recover(recent)

    def start_tracking(self, now: Now, past: Iterable[Attachment], stored_ms: Mapping[int, int]) -> None:
        """Load what earlier processes have recorded (`Recorder.start`); call after `recover`."""
        self.node.start_tracking(now.wall_ms, past, stored_ms)

    def step(self, now: Now, incoming: Input) -> list[Effect]:
        node = self.node
        if node.network is not None:
            node.network.clock.at(now.steady_ms)
        self._hand_on(now)
        match incoming:
            case inputs.PlaneReady():
                self._take_events(now)
                if self._alone is None and (self._unfinished or self._shares_turn):
                    self._turn(now)
                return self._take()
            case inputs.Persisted():
                self._persisted(now, incoming)
                return self._take()
            case inputs.PersistedNow() | inputs.PersistLate() | inputs.NotPersisted():
                self._answer_alone(now, incoming)
                return self._take()
            case inputs.Loaded(asked, messages, damaged):
                node.loaded(now.wall_ms, asked, messages, damaged)
            case inputs.Resolved(number, answer):
                node.tracking.resolved(now.wall_ms, number, answer)
            case inputs.Turn() | inputs.Tick() | inputs.TrackingTick() | inputs.StopTracking():
                self._time_input(now, incoming)
            case (
                inputs.LinksReady()
                | inputs.LinkOpened()
                | inputs.StopLinks()
                | inputs.PeersChanged()
                | inputs.ForgetBroker()
                | inputs.LeaveNetwork()
                | inputs.ReleaseHeld()
                | fx.Lost()
                | fx.Authenticated()
                | fx.Denied()
                | fx.Carried()
                | fx.Timer()
            ):
                self._link_input(now, incoming)
            case (
                inputs.ClientOpened()
                | inputs.ClientLost()
                | inputs.ClientRequest()
                | inputs.PingClient()
                | inputs.FailClient()
                | inputs.EndClient()
                | inputs.RefuseClient()
                | inputs.Reconfigured()
                | inputs.LoggedIn()
                | inputs.LoginRefused()
                | inputs.Inspected()
            ):
                self._client_input(now, incoming)
            case _:
                assert_never(incoming)
        self._turn(now)
        if isinstance(incoming, inputs.Tick):
            self._pass(now, node.retry())
        return self._take()

    def _time_input(
        self, now: Now, incoming: inputs.Turn | inputs.Tick | inputs.TrackingTick | inputs.StopTracking
    ) -> None:
        match incoming:
            case inputs.Turn():
                pass
            case inputs.Tick():
                self.node.tick(now.wall_ms)
            case inputs.TrackingTick():
                self.node.tracking.tick(now.wall_ms)
                self.node.accounts.refill(now.steady_ms)
            case inputs.StopTracking():
                self.node.tracking.close(now.wall_ms)
            case _:
                assert_never(incoming)

    def _persisted(self, now: Now, incoming: inputs.Persisted) -> None:
        for ticket in incoming.tickets:
            self._pass(now, self.node.persisted(ticket, incoming.error))

    # --- inputs -----------------------------------------------------------------------------------------------------

    def _client_input(self, now: Now, incoming: inputs.ClientInput) -> None:
        clients = self._clients
        if isinstance(incoming, inputs.ClientOpened):
            clients.opened(incoming.connection, incoming.session, incoming.address)
        elif isinstance(incoming, inputs.ClientLost):
            self._take_last(now, incoming.connection)
            clients.lost(now, incoming.connection)
        elif isinstance(incoming, inputs.Reconfigured):
            clients.configure(incoming.limits, open=incoming.open)
            self.node.accounts.configure(now.steady_ms, incoming.quotas)
            self.node.configure(incoming.policies)
        elif (client := clients.by_connection.get(incoming.connection)) is not None:  # otherwise it has left meanwhile
            self._input_of_client(now, client, incoming)

    def _input_of_client(self, now: Now, client: ClientSession, incoming: inputs.OfClient) -> None:
        clients = self._clients
        match incoming:
            case inputs.LoggedIn():
                clients.logged_in(now, client, incoming)
            case inputs.LoginRefused(error=error):
                clients.fail(now, client, error)
            case inputs.Inspected(outcome=outcome):
                clients.answer(now, client, outcome)
                clients.go_on(now, client)
            case inputs.ClientRequest(request=request):
                clients.request(now, client, request)
            case inputs.PingClient():
                clients.ping(client)
            case inputs.FailClient(error=error):
                clients.fail(now, client, error)
            case inputs.EndClient(code=code, reason=reason):
                clients.end(now, client, code, reason)
            case inputs.RefuseClient(reason=reason):
                clients.refuse(now, client, reason)
            case _:
                assert_never(incoming)

    def _link_input(self, now: Now, incoming: inputs.LinkInput) -> None:
        network, links = self.node.network, self._links
        assert network is not None
        assert links is not None
        match incoming:
            case inputs.LinksReady(address):
                network.address = address
                network.start(now.steady_ms)
            case inputs.LinkOpened():
                links.opened(now, incoming)
            case inputs.StopLinks(reason):
                network.stop(now.steady_ms, reason)
            case inputs.PeersChanged(dials, costs):
                network.change_peers(now.steady_ms, dials, costs)
            case inputs.ForgetBroker(router, queue):
                network.forget(now.steady_ms, router, queue)
            case inputs.LeaveNetwork():
                self.node.leave(now.steady_ms)
            case inputs.ReleaseHeld():
                network.held_copies.confirm()
            case fx.Lost():
                links.lost(now, incoming)
            case fx.Authenticated() | fx.Denied() | fx.Carried() | fx.Timer():
                network.step(now.steady_ms, incoming)
            case _:
                assert_never(incoming)

    # --- events of the plane ----------------------------------------------------------------------------------------

    def _take_events(self, now: Now) -> None:
        """Handle what the plane has, a batch at a time, up to a number of requests."""
        requests = 0
        while self._aside and requests < self._requests_max:
            frame = self._aside.popleft()
            requests += _cost(frame)
            self._handle(now, frame)
        while requests < self._requests_max and (events := self._plane.events()):
            first = events[0]
            if self._shares_turn and type(first) is not ControlFrame:
                self._turn(now)
            if len(events) == 1 and type(first) is Published and self._write_alone(first):
                return
            for event in events:
                if type(event) is ControlFrame and event.connection in self._clients.by_connection:
                    if requests >= self._requests_max:
                        self._aside.append(event)
                        continue
                    requests += _cost(event)
                self._handle(now, event)
            if self._unfinished:
                self._turn(now)

    def _take_last(self, now: Now, connection: int) -> None:
        """A client has left: what it published before that counts, and its requests, unless they are long: nobody waits
        for these. Requests of others stay for another step."""
        for _ in range(self._requests_max):
            for event in self._plane.events():
                if type(event) is ControlFrame and event.connection in self._clients.by_connection:
                    self._aside.append(event)
                else:
                    self._handle(now, event)
            if self._unfinished:
                self._turn(now)
            frame = next((frame for frame in self._aside if frame.connection == connection), None)
            if frame is None:
                break
            self._aside.remove(frame)
            if _cost(frame) == 1:
                self._handle(now, frame)

    def _handle(self, now: Now, event: PlaneEvent) -> None:
        try:
            self._event(now, event)
        except Exception:  # noqa: BLE001  # a bug must cost one connection, not all of them: it is logged
            self._internal_error(now, event)

    def _event(self, now: Now, event: PlaneEvent) -> None:
        """One event. Messages count even if their client is about to be closed; nothing else of it does."""
        node = self.node
        if type(event) is not ControlFrame:
            self._unfinished = True
        if isinstance(event, Published):
            node.publishing.message(now.wall_ms, event)
        elif isinstance(event, PublishedToRouters | PublishedToScheme):
            node.publishing.entered(now.wall_ms, event)
        elif isinstance(event, RemoteMessage):
            node.publishing.arrived(event)
        elif isinstance(event, CongestionChanged):
            assert node.network is not None
            node.network.congestion.change()
        elif isinstance(event, Relayed):
            node.publishing.relayed(now.wall_ms, event)
        elif (client := self._clients.by_connection.get(event.connection)) is not None:
            if event.connection in node.connections or not client.closing:
                self._client_event(now, client, event)
        elif self._links is not None and (link := self._links.by_number.get(event.connection)) is not None:
            self._link_event(now, self._links, link, event)

    def _client_event(self, now: Now, client: ClientSession, event: ConnectionEvent) -> None:
        node, clients = self.node, self._clients
        match event:
            case Acknowledged():
                self._acknowledged(now, client, event)
            case CreditGiven(connection, subscription, more):
                node.asked(now.wall_ms, connection, Credit(subscription, more))
            case ControlFrame():
                clients.control(now, client, event)  # each request has a turn of its own
            case Transacted():
                node.transacted(now.wall_ms, event)
            case PublishCheck():
                clients.check_publish(now, client, event)
            case FrameError(_, code, reason, position, receipt):
                clients.fail(now, client, RemoteProtocolError(code, reason, position=position), receipt)
            case SlowConsumer():
                reason = f"subscription {event.subscription} did not keep up"
                clients.end(now, client, "E_SLOW_CONSUMER", reason)
            case MessagesDropped(_, subscription, dropped, reason):
                clients.dropped(client, subscription, dropped, reason)
            case MemoryShort():
                reason = "memory is short, and this connection did not keep up"
                clients.end(now, client, "E_SLOW_CONSUMER", reason)
            case OutputRoom():
                node.room(event.connection)
            case ClockDrift():
                clients.clock_drift(now, client, event.sent_ms)
            case _:
                assert_never(event)

    def _link_event(self, now: Now, links: LinkSessions, link: LinkSession, event: ConnectionEvent) -> None:
        """Links have no subscriptions: the plane makes only two kinds for them."""
        if isinstance(event, ControlFrame):
            self._unfinished = True
            links.control(now, link, event)
        elif isinstance(event, FrameError):
            links.broken(now, link, event)
        else:
            raise AssertionError(f"{type(event).__name__} of a link")

    def _acknowledged(self, now: Now, client: ClientSession, event: Acknowledged) -> None:
        node = self.node
        if event.flags > ACK_FLAGS_MAX:
            unknown = RemoteProtocolError("E_FRAME_ACK", "an acknowledgement with an unknown flag", position=4)
            self._clients.fail(now, client, unknown)
        elif event.session or event.flags > ACK_CUMULATIVE:
            request = Ack.of(event.subscription, event.flags, event.tags, event.session)
            node.asked(now.wall_ms, event.connection, request)
        else:
            connection = node.connections[event.connection]
            cumulative = event.flags > 0
            node.acknowledged(now.wall_ms, connection, event.subscription, event.tags, cumulative=cumulative)

    def _internal_error(self, now: Now, event: PlaneEvent) -> None:
        self._out.append(Log("ERROR", "internal error", {"exception": traceback.format_exc()}))
        error = RemoteProtocolError("E_INTERNAL", "an error inside the broker")
        if (client := self._clients.by_connection.get(event.connection)) is not None:
            self._clients.fail(now, client, error)
        elif self.node.network is not None:
            self.node.network.broken(now.steady_ms, event.connection, error)

    # --- a message that is written alone ------------------------------------------------------------------------------

    def _write_alone(self, event: Published) -> bool:
        """A publisher waits for this message and hardly anybody for anything else: to disk with it, at once."""
        solo = self._solo.published(event.connection, self._plane.feeds())
        if not solo or event.perhaps_sent:
            return False
        write = self.node.sync_write.begin(event.message, event.sinks, event.expires_ms)
        if write is None:
            return False
        self._alone = event
        self._out.append(write)
        return True

    def _answer_alone(self, now: Now, incoming: inputs.PersistedNow | inputs.PersistLate | inputs.NotPersisted) -> None:
        event, self._alone = self._alone, None
        assert event is not None
        match incoming:
            case inputs.PersistedNow(error):
                if error is not None:
                    self.node.publishing.refuse(event.connection, event.receipt, error)
                    return
                self._handed_on = False
                if event.receipt and event.connection in self.node.connections:
                    self._plane.confirm(event.connection, (event.receipt,))
            case inputs.PersistLate():
                self.node.sync_write.late(ConfirmPublication(event.connection, event.receipt))
            case inputs.NotPersisted():
                self.node.publishing.message(now.wall_ms, event)
            case _:
                assert_never(incoming)

    def _hand_on(self, now: Now) -> None:
        """The publisher has its receipt: pass the message on to its subscribers."""
        if not self._handed_on:
            self._handed_on = True
            self.node.sync_write.end(now.wall_ms)

    # --- effects ------------------------------------------------------------------------------------------------------

    def _asked(self, now: Now, request: Request) -> None:
        """The end of a client's request. Very many subscriptions may come at once: they share a turn."""
        effects = self.node.answers(now.wall_ms) if type(request) is Subscribe else None
        if effects is None:
            self._turn(now)
        else:
            self._shares_turn = True
            self._pass(now, effects)

    def _turn(self, now: Now) -> None:
        self._shares_turn = False
        self._pass(now, self.node.turn(now.wall_ms))
        self._unfinished = self.node.has_changes

    def _pass(self, now: Now, effects: Sequence[NodeEffect]) -> None:
        """Answers go to the clients' sessions, everything else to the driver."""
        for effect in effects:
            match effect:
                case Reply(connection, answer):
                    self._clients.answer(now, self._clients.by_connection[connection], answer)
                case Close(connection, code, reason):
                    self._clients.end(now, self._clients.by_connection[connection], code, reason)
                case NotifyDropped(connection, subscription, count, reason):
                    self._clients.dropped(self._clients.by_connection[connection], subscription, count, reason)
                case Persist() | LoadMessages() | Log() | Track() | Inquire():
                    self._out.append(effect)
                case _:
                    assert_never(effect)

    def _take(self) -> list[Effect]:
        if self._links is not None:
            self._out += self._links.take()
        out = self._out.copy()
        self._out.clear()
        return out


def _cost(request: ControlFrame) -> int:
    """As many usual requests as take about as long."""
    return 1 + len(request.payload) // REQUEST_BYTES
