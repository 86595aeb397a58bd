"""The asyncio driver: brings inputs to the engine and carries out its effects.

    socket ─► forwarder.feed ─┬─ output ─► at once, or once a loop iteration: one write a connection
                              └─ events ─► engine.step ─► effects ─► sockets, links, store, tracking, login

Plain messages take the upper way, small reads without Python. Everything but logins, the store and the tracking of
messages runs on one event loop.
"""

import asyncio
import logging
import secrets
import ssl
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from random import Random
from typing import assert_never

from tidings.broker.broker_view import BrokerView
from tidings.broker.config.tuning import TuningTable
from tidings.broker.connections.client_listeners import ClientListeners, ListenerSettings, client_handshakes
from tidings.broker.connections.client_sockets import ClientSockets
from tidings.broker.connections.connection import ConnectionServices
from tidings.broker.connections.connection_factory import ConnectionMaker
from tidings.broker.connections.gateway_connection import GatewayServices
from tidings.broker.connections.gateway_turns import GatewayTurns
from tidings.broker.connections.output_flush import OutputFlush
from tidings.broker.connections.publisher_ids import new_numbering, publisher_numbers
from tidings.broker.inspection import inspect
from tidings.broker.links.links import BrokerLinks, LinkServices, NoLinks, Peers
from tidings.broker.log_rate_limit import LogRateLimit
from tidings.broker.logs import note
from tidings.broker.management.session import ManagementServices
from tidings.broker.security.guard import Guard, OpenGuard
from tidings.broker.security.login import Login
from tidings.broker.store_thread import StoreThread, WriteNow
from tidings.broker.tasks import Steps, Tasks
from tidings.broker.tracking_thread import TrackingOptions, TrackingThread
from tidings.broker.tuning.capacity_observer import CounterSources, ExcludedCpuTime, Observer
from tidings.broker.tuning.read_moderation import ReadModeration
from tidings.broker.tuning.receive_windows import ReceiveWindows, small_segments
from tidings.delivery.policy import QueuePolicy
from tidings.delivery.store import Store
from tidings.errors import TidingsError
from tidings.kernel.clock import now_ms
from tidings.kernel.forwarder import Forwarder
from tidings.node import inputs
from tidings.node.clients.admission import Admission
from tidings.node.clients.client_sessions import ClientOptions
from tidings.node.clients.publish_dedup import recent_ids
from tidings.node.effects import (
    AuditAction,
    AuditRefusal,
    ClientReady,
    CloseClient,
    Effect,
    Inquire,
    Inspection,
    LoadMessages,
    Log,
    LogIn,
    Persist,
    PersistNow,
    ResumeReading,
    Track,
)
from tidings.node.engine import Engine
from tidings.node.inputs import Input, Now
from tidings.node.limits import BrokerLimits, UserQuota
from tidings.node.settings import NodeSettings
from tidings.overlay import effects as fx
from tidings.tracking.trace_answer import KeyAnswer, TraceAnswer

log = logging.getLogger("tidings.broker")

SHARE_MS = 5  # of a turn of the event loop, for the input of one client: then others come first
PATIENCE_SECONDS = 2.0  # with clients that were told to leave
SETTLE_SECONDS = 5.0  # time that a shutdown allows the disk for pending messages


class Broker:
    role = "single"  # active: it has a standby

    def __init__(
        self,
        settings: NodeSettings,
        store: Store,
        *,
        guard: Guard | None = None,
        limits: BrokerLimits | None = None,
        name: str = "tidings",
        peers: Peers | None = None,
        tracking: TrackingOptions | None = None,
        admission: Admission | None = None,
        tuning: TuningTable | None = None,
    ) -> None:
        self.name, self.settings, self.admission = name, settings, admission
        self.tuning = tuning or TuningTable()
        self.run = secrets.token_hex(8)  # tells if two addresses lead to the same broker
        self.limits = limits or BrokerLimits()
        self._policies, self._quotas = settings.policies, settings.quotas
        self.forwarder = Forwarder(
            output_bytes_max=self.limits.output_bytes_max,
            memory_bytes_max=self.limits.memory_bytes_max,
            stall_ms=self.limits.stall_ms,
        )
        self.forwarder.set_share(SHARE_MS)
        self.lines, self.tasks = LogRateLimit(), Tasks()
        self.login = Login(guard or OpenGuard(), self._step_and_follow, self.tasks.spawn, self.lines)
        self.engine = self._make_engine(peers, tracking)
        self.tracking = TrackingThread(tracking, settings.broker_id)
        self.observer: Observer | None = None  # of its counters
        self.aside = ExcludedCpuTime()
        self.ready = False
        self._store = store
        self.writer: StoreThread | None = None
        self.listening: list[ClientListeners] = []
        self.handshakes = client_handshakes(lambda: self.limits, self.lines)
        self.flushing = OutputFlush(self.forwarder, self._follow_up)
        self.read_moderation = ReadModeration(self.forwarder.received, enabled=self.tuning.read_moderation)
        self.clients = ClientSockets(
            self.forwarder,
            self.handshakes.connection_limits,
            self.flushing,
            self.step,
            self._handle_events,
            self._next_turn_soon,
            self.lines,
        )
        self.make_connection = self._connection_maker().make
        self.windows = None if admission is None else self._receive_windows(admission)
        self.management = ManagementServices(
            self.forwarder,
            self.flushing.ends,
            self.step,
            self.clients.after,
            self.login.log_in,
            lambda number: self.engine.view.connections[number].principal,
            lambda: self.limits.frame_bytes_max,
        )
        self.links = self._make_links(peers)
        self._requests_left = False  # a step in this turn of the event loop did not get to all of them
        self._base_ms = time.time() * 1000 - time.monotonic() * 1000

    def _make_engine(self, peers: Peers | None, tracking: TrackingOptions | None) -> Engine:
        # Publishers' numbers are others at every start: what is named by one, as a temporary queue is, must not be a
        # stranger's afterwards.
        numbering = new_numbering()
        clients = ClientOptions(
            publisher_numbers(numbering), self.name, self.limits, open=self.login.guard.open, admission=self.admission
        )
        network = None if peers is None else replace(peers.network, authenticate=not peers.links.insecure)
        return Engine(
            self.forwarder,
            self.settings,
            clients,
            network,
            secret=b"" if peers is None else peers.links.secret,
            tracking=None if tracking is None else replace(tracking.settings, numbering=numbering),
            # A later start must have a greater incarnation, so that what it says overrules what an earlier one said.
            incarnation=time.time_ns() // 1_000_000,
            rng=Random(),
        )

    def _connection_maker(self) -> ConnectionMaker:
        buffer = memoryview(bytearray(len(self.forwarder.buffer)))
        delayed = self.tuning.delayed_acknowledgements
        services = ConnectionServices(
            self.forwarder, self.clients, self.flushing, self.read_moderation, buffer, delayed
        )
        gateways = GatewayServices(
            self.clients.gateways,
            lambda: self.limits,
            lambda: self.login.guard.open,
            self._permits,
            lambda number, error: self._step_and_follow(inputs.FailClient(number, error)),
            GatewayTurns(),
        )
        return ConnectionMaker(services, gateways)

    def _receive_windows(self, admission: Admission) -> ReceiveWindows:
        return ReceiveWindows(admission, self.read_moderation.pace, self.forwarder, self.clients.connections)

    def _make_links(self, peers: Peers | None) -> BrokerLinks | NoLinks:
        if peers is None:
            return NoLinks()
        services = LinkServices(
            self.forwarder,
            self.flushing,
            self.step,
            self.steady_ms,
            self.clients.after,
            self.handshakes.failed,
            self.lines,
        )
        return BrokerLinks(services, replace(peers.links, batching=self.tuning.link_batching))

    # --- life -----------------------------------------------------------------------------------------------------

    async def start(self, listeners: Iterable[ListenerSettings]) -> None:
        """Recover what the store holds, then listen."""
        loop = asyncio.get_running_loop()
        recovered = await loop.run_in_executor(None, self._store.recover)
        recent = await loop.run_in_executor(None, recent_ids, self._store, recovered)
        for damage in recovered.damaged:
            note(log, logging.ERROR, "damaged record in the store", reason=damage.reason)
        self.engine.recover(self.now(), recovered, recent)
        self.writer = StoreThread(self._store, loop, on_written=self._written, on_read=self._read)
        await self.tracking.start(self.engine.recorder, self._resolved)
        for listener in listeners:
            await self.listen(listener)
        await self.links.start()
        self.tasks.spawn(self._keep_time(), essential="the broker's clock")
        if self.windows is not None:
            self.tasks.spawn(self.windows.run())
        self.ready = True

    async def listen(self, listener: ListenerSettings) -> int:
        """Returns the port: the one asked for, or the one the system chose for 0."""
        listening = ClientListeners(listener, lambda: self.make_connection(listener), self.handshakes)
        await listening.open()
        if self.admission is not None and not self.admission.refuses:
            listening.each_socket(small_segments)
        self.listening.append(listening)
        protocol, tls = listener.protocol or listener.make_session().name, listener.tls is not None
        note(log, logging.INFO, "listening", protocol=protocol, host=listener.host, port=listening.port, tls=tls)
        return listening.port

    async def stop(
        self,
        code: str = "E_SHUTDOWN",
        reason: str = "the broker is shutting down",
        *,
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        """Stop accepting, write and confirm what is in progress, close connections and the store. Clients hear the code
        and the reason, and have a while to leave."""
        self.clients.closed, self.ready = True, False
        for listening in self.listening:
            listening.close()
        for connection in self.clients.connections.values():
            connection.pause_reading()
        await self._settled()
        self.clients.end_all(code, reason)
        await self.links.stop()
        await self._drained(patience_seconds)
        await self._settled()
        self.login.close()
        await self.tasks.cancel()
        if self.writer is not None:
            self.step(inputs.StopTracking())
            await self.tracking.close()
            await self.writer.close()
        await asyncio.get_running_loop().run_in_executor(None, self._store.close)

    async def _settled(self) -> None:
        """Wait until pending writes are on disk and their receipts sent, at most SETTLE_SECONDS."""
        deadline = time.monotonic() + SETTLE_SECONDS
        while self.writer is not None and not self.engine.view.idle and time.monotonic() < deadline:
            self.step(inputs.Tick())
            await asyncio.sleep(0.01)

    async def _drained(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while self.clients.connections and time.monotonic() < deadline:
            await asyncio.sleep(0.01)
        for connection in list(self.clients.connections.values()):
            connection.abort()
        await asyncio.sleep(0)

    def renew_tls(self, tls: ssl.SSLContext) -> None:
        """Use another certificate for new connections."""
        for listening in self.listening:
            if listening.tls is not None:
                listening.renew(tls)

    def configure(self, limits: BrokerLimits, guard: Guard) -> None:
        """Other limits and users, for clients that log in from now on."""
        self.limits, self.login.guard = limits, guard
        self._reconfigure()

    def replace_policies(self, policies: tuple[QueuePolicy, ...]) -> None:
        """Policies of queues, for those that exist too."""
        self._policies = policies
        self._reconfigure()

    def replace_quotas(self, quotas: tuple[UserQuota, ...]) -> None:
        """Quotas of users, for those that are connected too."""
        self._quotas = quotas
        self._reconfigure()

    def _reconfigure(self) -> None:
        open = self.login.guard.open
        self._step_and_follow(inputs.Reconfigured(self.limits, open, self._policies, self._quotas))

    def counting(self) -> CounterSources:
        """The counters that an observer reads."""

        def stored() -> int:
            return 0 if self.writer is None else self.writer.stats.records

        return CounterSources(self.forwarder, self.read_moderation.pace, self.aside, stored)

    def view(self) -> BrokerView:
        """A snapshot of the broker for inspection and metrics."""
        ended = "" if self.writer is None or self.writer.alive else "the store's thread has ended"
        ended = ended or self.tasks.failure or ("" if self.tracking.alive else "the tracking thread has ended")
        return BrokerView(
            self.name,
            self.run,
            self.role,
            self.settings,
            self.limits,
            self.ready,
            ended if self.ready else "",
            self.login.guard,
            self.engine.view,
            self.forwarder,
            self.clients,
            self.links,
            self.login.refused,
            self.login.waiting,
            self.lines.suppressed,
            self.handshakes.failed,
            self.writer,
            self.observer,
            self.admission,
            self.read_moderation.pace,
            None if self.windows is None else self.windows.control,
        )

    # --- inputs -----------------------------------------------------------------------------------------------------

    def steady_ms(self) -> float:
        """Monotonic milliseconds."""
        return self._base_ms + time.monotonic() * 1000

    def now(self) -> Now:
        return Now(now_ms(), self.steady_ms())

    def step(self, event: Input) -> None:
        for effect in self.engine.step(self.now(), event):
            self._carry_out(effect)
        if self.engine.has_requests or self.forwarder.has_tired():
            self._next_turn_soon()

    def _step_and_follow(self, event: Input) -> None:
        self.step(event)
        self.clients.after()

    def _handle_events(self) -> None:
        """Once a turn of the event loop if requests are left over: others' messages are read first."""
        if self._requests_left:
            return
        self.step(inputs.PlaneReady())
        if self.forwarder.has_events():
            self._next_turn_soon()

    def _next_turn_soon(self) -> None:
        if not self._requests_left:
            self._requests_left = True
            asyncio.get_running_loop().call_soon(self._next_turn)

    def _next_turn(self) -> None:
        self._requests_left = False
        self.clients.rest()
        self._follow_up()

    def _follow_up(self) -> None:
        """In a later iteration of the loop: what a write made possible, or what one step did not get to."""
        if self.engine.has_requests or self.forwarder.has_events():
            self._handle_events()
        self.clients.after()

    def _written(self, tickets: Sequence[int], error: TidingsError | None) -> None:
        self.step(inputs.Persisted(tickets, error))
        if self.forwarder.has_output():
            self.flushing.now()  # receipts first: publishers may continue while deliveries are made
        self.step(inputs.Turn())
        self.clients.after(flush=True)

    def _resolved(self, number: int, answer: TraceAnswer | KeyAnswer) -> None:
        self._step_and_follow(inputs.Resolved(number, answer))

    def _read(self, asked: Sequence[int], messages: dict[int, bytes], damaged: Sequence[int]) -> None:
        self._step_and_follow(inputs.Loaded(asked, messages, damaged))

    async def _keep_time(self) -> None:
        steps = Steps()
        for ticks in count(1):
            await asyncio.sleep(0.25)
            now = now_ms()
            steps.do("stalled connections", self.forwarder.check_stalls, now)
            steps.do("heartbeats", self.clients.send_heartbeats, now)
            steps.do("missing heartbeats", partial(self.clients.check_silence, brisk=True), now, self.limits)
            steps.do("tracking", self.step, inputs.TrackingTick())
            if ticks % 4 == 0:
                steps.do("mailboxes", self.step, inputs.Tick())
                steps.do("log", self.lines.tick)
                steps.do("tokens", self.login.tick, time.time())
                steps.do("silent connections", self.clients.check_silence, now, self.limits)
            steps.do("output", self.clients.after)

    # --- effects ----------------------------------------------------------------------------------------------------

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case Persist(ticket, records):
                assert self.writer is not None
                self.writer.write(ticket, records)
            case PersistNow():
                self._persist_now(effect)
            case LoadMessages(seqs):
                assert self.writer is not None
                self.writer.read(seqs)
            case ResumeReading(connection):
                self.clients.resume_reading(connection)
            case CloseClient():
                self.clients.close(effect)
            case LogIn():
                self.login.log_in(self.clients.connections[effect.connection], effect.hello)
            case ClientReady():
                self.clients.ready(effect)
            case Inspection(connection, question):
                principal = self.engine.view.connections[connection].principal
                self.step(inputs.Inspected(connection, inspect(self.view(), principal, question)))
            case Track(changes, entries, keys):
                self.tracking.store(changes, entries, keys)
            case Inquire(number, inquiry):
                self.tracking.inquire(number, inquiry)
            case Log():
                self._log(effect)
            case AuditAction(user, address, protocol, action, fields, code):
                self.login.audit.action(user, address, protocol, action, fields, code)
            case AuditRefusal(user, address, protocol, reason):
                self.login.audit.request_refused(user, address, protocol, reason)
            case fx.Dial() | fx.CloseLink() | fx.SetTimer() | fx.Authenticate() | fx.Report():
                self.links.carry_out(effect)
            case _:
                assert_never(effect)

    def _log(self, effect: Log) -> None:
        level, event, fields = logging.getLevelNamesMapping()[effect.level.upper()], effect.event, dict(effect.fields)
        if "address" in fields or "exception" in fields:  # caused by a peer: rate limited
            self.lines.note(log, level, event, str(fields.pop("address", "")), **fields)
        else:
            note(log, level, event, **fields)

    def _persist_now(self, effect: PersistNow) -> None:
        assert self.writer is not None
        answer: inputs.PersistedNow | inputs.PersistLate | inputs.NotPersisted
        try:
            match outcome := self.writer.write_now(effect.ticket, effect.records):
                case WriteNow.WRITTEN:
                    answer = inputs.PersistedNow()
                case WriteNow.UNDER_WAY:
                    answer = inputs.PersistLate()
                case WriteNow.NOT_TRIED:
                    answer = inputs.NotPersisted()
                case _:
                    assert_never(outcome)
        except TidingsError as error:
            answer = inputs.PersistedNow(error)
        self.step(answer)
        if isinstance(answer, inputs.PersistedNow):
            self.flushing.now()  # the publisher may continue while deliveries are made
        self.step(inputs.Turn())

    def _permits(self, connection: int, operation: str, destination: str) -> bool:
        client = self.engine.view.connections.get(connection)
        return client is not None and client.principal.may(operation, destination)
