"""The asyncio driver: connects sockets, the forwarder, the node and the store's thread.

    intake ─► forwarder.feed ─┬─ output ─► at once, or once a loop iteration: one write a connection
                              └─ events ─► session ─► node ─► effects ─► forwarder, store, sockets

Plain messages take the upper way, small reads without Python. All is on one event loop but log-ins and the store.
"""

import asyncio
import logging
import secrets
import ssl
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import count
from typing import assert_never

from tidings.broker.admission import Admission
from tidings.broker.admitted_connection import make_connection
from tidings.broker.connection import ClientConnection
from tidings.broker.flushing import Flushing
from tidings.broker.gateway_connection import GatewayConnection
from tidings.broker.guard import Guard, OpenGuard
from tidings.broker.inspection import inspect
from tidings.broker.life import check_silence, give_signs, one_less
from tidings.broker.limits import Limits
from tidings.broker.listening import Listener, Listening, client_handshakes
from tidings.broker.logs import note
from tidings.broker.naps import Naps
from tidings.broker.observing import Aside, Observer
from tidings.broker.peers import Peers, enlist
from tidings.broker.reception import Reception
from tidings.broker.session import Bye, Clock, Hello, Inspect, Invalid, Ping
from tidings.broker.tasks import Steps, Tasks
from tidings.broker.tracking_thread import TrackingOptions, TrackingThread
from tidings.broker.writer import Lone, StoreWriter
from tidings.delivery.store import Store
from tidings.errors import LimitError, RemoteProtocolError, SecurityError, TidingsError
from tidings.kernel import clock
from tidings.kernel.forwarder import EventTuple, Flag, Forwarder, Kind
from tidings.node import requests
from tidings.node.effects import Close, Effect, Inquire, Load, Log, Persist, Reply, Track
from tidings.node.publishing import PERHAPS_SENT
from tidings.node.requests import Accepted, Ack, Credit, Failed, Refused
from tidings.node.settings import Settings
from tidings.tracking.record import Answer

__all__ = ["Broker", "Limits", "Listener"]

log = logging.getLogger("tidings.broker")

EVENTS, BLOCKED, CONTROL, MESSAGE = int(Flag.EVENTS), int(Flag.BLOCKED), int(Kind.CONTROL), int(Kind.MESSAGE)
SETTLE_SECONDS = 5.0  # what a shutdown gives the disk for messages under way
ACK_CUMULATIVE = 1  # flag of an ACK frame: and all before
TURN_SECONDS_MAX = 2e-3  # for the requests of one client, before others are read


class Broker:
    def __init__(
        self,
        settings: Settings,
        store: Store,
        *,
        guard: Guard | None = None,
        limits: Limits | None = None,
        name: str = "tidings",
        peers: Peers | None = None,
        tracking: TrackingOptions | None = None,
    ) -> None:
        self.name = name
        self.run = secrets.token_hex(8)  # of two addresses it tells whether the same broker is behind them
        self.settings = settings
        self.limits = limits or Limits()
        self.guard = guard or OpenGuard()
        self.forwarder = Forwarder(
            output_bytes_max=self.limits.output_bytes_max,
            memory_bytes_max=self.limits.memory_bytes_max,
            stall_ms=self.limits.stall_ms,
        )
        self.buffer = self.forwarder.buffer
        self.layer_buffer = memoryview(bytearray(len(self.buffer)))  # for what is not yet the forwarder's
        self.naps = Naps(self.forwarder.received)
        self.admission: Admission | None = None  # to be set before it listens
        self._lone = Lone()
        self.node, self.links = enlist(self, settings, peers, tracking.settings if tracking else None)
        self.tracking = TrackingThread(tracking, settings.broker_id)
        self.connections: dict[int, ClientConnection] = {}
        self.gateways: set[GatewayConnection] = set()  # those of them that want to be told the time
        self.refused_logins: Counter[str] = Counter()  # by code
        self.observer: Observer | None = None  # of its counters
        self.aside = Aside()
        self.protocol_errors: Counter[str] = Counter()
        self.ready = False
        self._store = store
        self.writer: StoreWriter | None = None
        self.listening: list[Listening] = []
        self.tasks = Tasks()
        self.handshakes = client_handshakes(lambda: self.limits)
        self.crowd = self.handshakes.crowd
        self.per_user: Counter[str] = Counter()
        flushing = Flushing(self)
        self.flush, self.flush_soon = flushing.now, flushing.soon
        self.beating: set[ClientConnection] = set()  # clients that want to hear from us every now and then
        self.reception = Reception(self)
        self._stopping = False

    now_ms = staticmethod(clock.now_ms)

    # --- life -----------------------------------------------------------------------------------------------------

    async def start(self, listeners: Iterable[Listener]) -> None:
        """Recover what the store holds, then listen."""
        self.loop = asyncio.get_running_loop()
        recovered = await self.loop.run_in_executor(None, self._store.recover)
        for damage in recovered.damaged:
            note(log, logging.ERROR, "damaged record in the store", reason=damage.reason)
        self.node.recover(recovered, self.links.now())
        self.writer = StoreWriter(self._store, self.loop, on_written=self._written, on_read=self._read)
        await self.tracking.start(self.node.tracking.recorder, self._resolved)
        for listener in listeners:
            await self.listen(listener)
        await self.links.start()
        self.tasks.spawn(self._keep_time(), essential="the broker's clock")
        self.ready = True

    async def listen(self, listener: Listener) -> int:
        """Returns the port: the one asked for, or the one the system chose for 0."""
        listening = Listening(listener, lambda: make_connection(self, listener), self.handshakes)
        await listening.open()
        self.listening.append(listening)
        protocol, tls = listener.protocol or listener.make_session().name, listener.tls is not None
        note(log, logging.INFO, "listening", protocol=protocol, host=listener.host, port=listening.port, tls=tls)
        return listening.port

    async def stop(self) -> None:
        """Take nothing more, write and confirm what is under way, say good-bye, close."""
        self._stopping, self.ready = True, False
        self.loop = asyncio.get_running_loop()  # it may never have been started
        for listening in self.listening:
            listening.close()
        for connection in self.connections.values():
            connection.pause_reading()
        await self._settled()
        for connection in list(self.connections.values()):
            self._end(connection, "E_SHUTDOWN", "the broker is shutting down")
        await self.links.stop()
        await self._drained(2.0)
        await self._settled()
        await self.tasks.cancel()
        self.reception.close()
        if self.writer is not None:
            self._carry_out(self.node.stop_tracking(self.now_ms()))
            await self.tracking.close()
            await self.writer.close()
        await self.loop.run_in_executor(None, self._store.close)

    async def _settled(self) -> None:
        """Receipts for what is on its way to disk go out before the good-byes, and what nobody waits for is written."""
        deadline = self.loop.time() + SETTLE_SECONDS
        while self.writer is not None and not self.node.idle and self.loop.time() < deadline:
            self._carry_out(self.node.tick(self.now_ms()))
            await asyncio.sleep(0.01)

    async def _drained(self, seconds: float) -> None:
        deadline = self.loop.time() + seconds
        while self.connections and self.loop.time() < deadline:
            await asyncio.sleep(0.01)
        for connection in list(self.connections.values()):
            connection.abort()
        await asyncio.sleep(0)

    # --- changes while it runs ------------------------------------------------------------------------------------

    def renew_tls(self, tls: ssl.SSLContext) -> None:
        """Another certificate for all who connect from now on."""
        for listening in self.listening:
            if listening.tls is not None:
                listening.renew(tls)

    def end_connections(self, users: frozenset[str] | None, code: str, reason: str) -> int:
        """End the connections of these users (None: all); they may connect again, under what applies now."""
        ended = [one for one in self.connections.values() if users is None or (one.logged_in and one.user in users)]
        for connection in ended:
            self._end(connection, code, reason)
        return len(ended)

    # --- sockets --------------------------------------------------------------------------------------------------

    def opened(self, connection: ClientConnection) -> None:
        room = self.crowd.enter(connection.address)
        connection.number = self.forwarder.open()
        connection.session.opened(self.forwarder, connection.number)
        self.connections[connection.number] = connection
        if not room or self._stopping:
            self.turn_away(connection, "too many connections")

    def turn_away(self, connection: ClientConnection, reason: str) -> None:
        self.crowd.refused += 1
        error = LimitError("E_CONNECTIONS", reason, fatal=True)
        self.forwarder.send(connection.number, connection.session.error(error))
        self._close(connection)

    def lost(self, connection: ClientConnection) -> None:
        number = connection.number
        if number not in self.connections:
            return
        try:
            self._handle_events()  # what it published before it left counts
        finally:
            self._forget(connection, number)
        self.after()

    def _forget(self, connection: ClientConnection, number: int) -> None:
        del self.connections[number]
        self.beating.discard(connection)
        connection.number = -1
        self.crowd.leave(connection.address)
        if connection.logged_in:
            one_less(self.per_user, connection.user)
        try:
            self._carry_out(self.node.lost(self.now_ms(), number))
        finally:
            self.forwarder.close(number)

    def react(self, connection: ClientConnection, flags: int, *, flush: bool) -> None:
        """What `feed` said must be done; `flush`: there is time, write at once what came of it."""
        if flags & EVENTS:
            self._handle_events()
        if flags & BLOCKED and connection.number >= 0:
            # Handling events may have unblocked it: ask again, which also parses what was kept.
            if self.forwarder.resume(connection.number, self.now_ms()) & BLOCKED:
                connection.pause_reading()
            else:
                connection.resume_reading()
        self.after(flush=flush)

    def settle(self) -> None:
        """Something happened that concerns other brokers: handle it, and let the node finish its turn."""
        self._handle_events()
        self._carry_out(self.node.turn(self.now_ms()))
        self.after()

    def after(self, *, flush: bool = False) -> None:
        """Follow up whatever was just done: publishers to resume, output to write."""
        for number in self.forwarder.take_resumable():
            resumed = self.connections.get(number)
            if resumed is not None:
                flags = self.forwarder.resume(number, self.now_ms())
                if not flags & BLOCKED:
                    resumed.resume_reading()
                if flags & EVENTS:
                    self.loop.call_soon(self.handle_events_later)
        if not self.forwarder.has_output():
            return
        if flush:
            self.flush()
        else:
            self.flush_soon()

    def handle_events_later(self) -> None:
        self._handle_events()
        self.after()

    def _close(self, connection: ClientConnection, *, linger: bool = False) -> None:
        """Close after what is in its output, to which nothing is added now. `linger`: go on reading, and throw away
        what comes, or the system would answer it with a reset, which overtakes our last words."""
        if connection.closing:
            return
        connection.begin_closing(linger=linger)
        if linger:
            self.forwarder.ignore(connection.number)
        self._carry_out(self.node.lost(self.now_ms(), connection.number))
        self.flush()
        if connection.number >= 0 and not self.forwarder.output_bytes(connection.number):
            connection.close()  # it had no output, so the flush did not come by

    def _end(self, connection: ClientConnection, code: str, reason: str) -> None:
        if connection.closing:
            return
        self.forwarder.send(connection.number, connection.session.close(code, reason))
        self._close(connection)

    # --- events ---------------------------------------------------------------------------------------------------

    def _handle_events(self) -> None:
        """What the kernel has left to Python; if that is much, after a while others come first."""
        forwarder, node = self.forwarder, self.node
        began = 0.0
        while events := forwarder.events():
            for event in events:
                kind, number = event[0], event[1]
                connection = self.connections.get(number)
                if connection is None:
                    self.links.event(event)
                    continue
                if kind == MESSAGE:
                    _, _, flags, receipt, expires_ms, message, sinks = event
                    lone = self._lone.published(number, self.naps.pace.reads) and len(events) == 1
                    if lone and not flags and self._write_alone(number, receipt, message, sinks, expires_ms):
                        continue
                    node.publishing.message(
                        number, receipt, message, sinks, expires_ms=expires_ms, perhaps_sent=bool(flags & PERHAPS_SENT)
                    )
                elif number in node.connections or not connection.closing:  # otherwise it has left
                    try:
                        self._handle_event(kind, connection, event)
                    except Exception:  # a fault of ours must cost one connection, not all of them
                        log.exception("internal error while serving %s", connection.address)
                        self.fail(connection, RemoteProtocolError("E_INTERNAL", "an error inside the broker"))
            if len(events) > 1 or events[0][0] != CONTROL:  # a request has had its turn
                self._carry_out(node.turn(self.now_ms()))
            elif time.perf_counter() - (began := began or time.perf_counter()) > TURN_SECONDS_MAX:
                self.loop.call_soon(self.handle_events_later)
                return

    def _write_alone(self, number: int, receipt: int, message: bytes, sinks: Sequence[int], expires_ms: int) -> bool:
        """A publisher waits for this message and hardly anybody for anything else: to disk with it, and the receipt."""
        assert self.writer is not None
        records = self.node.alone.begin(message, sinks, expires_ms)
        try:
            if records is None or not self.writer.write_here(records):
                return False
        except TidingsError as error:
            self.node.publishing.refuse(number, receipt, error)
            return True
        if receipt:
            self.forwarder.confirm(number, (receipt,))
            self.flush()  # the publisher may go on while we see to the deliveries
        self.node.alone.end(self.now_ms())
        return True

    def _handle_event(self, kind: int, connection: ClientConnection, event: EventTuple) -> None:
        number = connection.number
        match kind:
            case Kind.ACK:
                _, _, session, subscription, flags, tags = event
                if session or flags > ACK_CUMULATIVE:
                    self.node.asked(self.now_ms(), number, Ack.of(subscription, flags, tags, session))
                else:
                    client = self.node.connections[number]
                    self.node.acknowledged(self.now_ms(), client, subscription, tags, cumulative=flags > 0)
            case Kind.CREDIT:
                self.node.asked(self.now_ms(), number, Credit(*event[2:]))
            case Kind.CONTROL:
                self._control(connection, *event[2:])
            case Kind.TRANSACTED:
                self.node.transacted(self.now_ms(), number, *event[2:])
            case Kind.ASK:
                self._ask(connection, *event[2:])
            case Kind.ERROR:
                _, _, code, reason, position, receipt = event
                self.fail(connection, RemoteProtocolError(code, reason, position=position), receipt)
            case Kind.SLOW:
                what = f"subscription {event[2]}" if event[2] else "memory is short, and this connection"
                self._end(connection, "E_SLOW_CONSUMER", f"{what} did not keep up")
            case Kind.ENTRY:
                self.node.publishing.from_network(self.now_ms(), event)
            case Kind.CLOCK:
                self.reception.correct(connection, event[2])
            case Kind.ROOM:
                self._carry_out(self.node.room(self.now_ms(), number))

    def _control(self, connection: ClientConnection, type: int, flags: int, session: int, payload: bytes) -> None:
        try:
            received = connection.session.receive(type, flags, session, payload)
        except TidingsError as error:
            self.fail(connection, error)
            return
        match received:
            case Hello():
                self.tasks.spawn(self.reception.log_in(connection, received))
                return  # parsing goes on after the log-in
            case Ping():
                self.forwarder.send(connection.number, connection.session.pong())
            case Inspect():
                self._answer(connection, inspect(self, connection.number, received))
            case Clock(number):
                self.reception.confirmed(connection, number)
            case Bye():
                self._close(connection)
                return
            case Invalid(receipt, wrong):
                self._answer(connection, Failed(receipt, wrong))
            case None:
                pass
            case tuple():
                for request in received:
                    self._carry_out(self.node.request(self.now_ms(), connection.number, request))
            case request:
                self._carry_out(self.node.request(self.now_ms(), connection.number, request))
        self._go_on(connection)

    def _go_on(self, connection: ClientConnection) -> None:
        """What parsing stopped at is dealt with."""
        if connection.closing:
            return
        if not self.forwarder.handled(connection.number, self.now_ms()) & BLOCKED:
            connection.resume_reading()

    def _ask(self, connection: ClientConnection, session: int, receipt: int, queue: bool, name: str) -> None:
        """May this client publish there? Asked once for each destination."""
        number, client = connection.number, self.node.connections[connection.number]
        principal = client.principal
        destination = f"{'queue' if queue else 'topic'}:{name}"
        error: TidingsError | None = SecurityError("E_FORBIDDEN", f"{principal.name} may not publish to {destination}")
        if principal.may("publish", destination):
            error = self.admission.newcomer() if self.admission else None
        if error is None:
            self.forwarder.allow(number, destination)
        else:
            client.spoil(session, error)
            self._answer(connection, Refused(receipt, error) if receipt else Failed(0, error))
            if not connection.closing:  # STOMP's answer is the last thing said
                self.forwarder.skip(number)
        self._go_on(connection)

    def fail(self, connection: ClientConnection, error: TidingsError, receipt: int = 0) -> None:
        """The stream is broken: say why, and close."""
        fatal = RemoteProtocolError(error.code, error.reason, position=error.position)
        if not isinstance(error, SecurityError):
            self.protocol_errors[error.code] += 1
            note(log, logging.INFO, "protocol error", address=connection.address, error=error)
        self.forwarder.send(connection.number, connection.session.error(fatal, receipt))
        self._close(connection, linger=True)

    def _answer(self, connection: ClientConnection, answer: requests.Answer) -> None:
        if connection.closing and connection.session.ended:
            return
        if isinstance(answer, Accepted):
            self.forwarder.confirm(connection.number, answer.receipts)
        elif data := connection.session.answer(answer):
            self.forwarder.send(connection.number, data)
        if connection.session.ended:
            self._close(connection, linger=True)

    # --- effects --------------------------------------------------------------------------------------------------

    def _carry_out(self, effects: list[Effect]) -> None:
        assert self.writer is not None
        for effect in effects:
            match effect:
                case Reply(number, answer):
                    self._answer(self.connections[number], answer)
                case Persist(ticket, records):
                    self.writer.write(ticket, records)
                case Load(seqs):
                    self.writer.read(seqs)
                case Close(number, code, reason):
                    self._end(self.connections[number], code, reason)
                case Track(changes, entries):
                    self.tracking.store(changes, entries)
                case Inquire(number, inquiry):
                    self.tracking.inquire(number, inquiry)
                case Log(level, event, fields):
                    note(log, logging.getLevelNamesMapping()[level.upper()], event, **fields)
                case _:
                    assert_never(effect)
        self.links.carry_out()

    def _written(self, tickets: list[int], error: TidingsError | None) -> None:
        for ticket in tickets:
            self._carry_out(self.node.persisted(ticket, error))
        if self.forwarder.has_output():
            self.flush()  # receipts first: publishers may go on while we see to the deliveries
        self._carry_out(self.node.turn(self.now_ms()))
        self.after(flush=True)

    def _resolved(self, number: int, answer: Answer) -> None:
        """What stored histories say about a message."""
        self._carry_out(self.node.resolved(self.now_ms(), number, answer))
        self.after()

    def _read(self, asked: Sequence[int], messages: dict[int, bytes], damaged: Sequence[int]) -> None:
        self._carry_out(self.node.loaded(self.now_ms(), asked, messages, damaged))
        self.after()

    # --- time -----------------------------------------------------------------------------------------------------

    async def _keep_time(self) -> None:
        steps = Steps()
        for ticks in count(1):
            await asyncio.sleep(0.25)
            now_ms = self.now_ms()
            steps.do("stalled connections", self.forwarder.check_stalls, now_ms)
            steps.do("signs of life", give_signs, self, now_ms)
            steps.do("links", self.links.tell_time)
            steps.do("tracking", self._pass, self.node.track, now_ms)
            if ticks % 4 == 0:
                steps.do("mailboxes", self._pass, self.node.tick, now_ms)
                steps.do("silent connections", check_silence, self, now_ms)
            steps.do("output", self.after)

    def _pass(self, door: Callable[[int], list[Effect]], now_ms: int) -> None:
        self._carry_out(door(now_ms))
