"""The asyncio driver: connects sockets, the forwarder, the node and the store's thread.

    buffer_updated ─► forwarder.feed ─┬─ output ─► flush once a loop iteration: one write a connection
                                      └─ events ─► session ─► node ─► effects ─► forwarder, store, sockets

Plain messages take the upper way only. Everything runs on one event loop, apart from log-ins and the store.
"""

import asyncio
import logging
import ssl
import time
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, field
from typing import assert_never

from tidings.broker.connection import ClientConnection
from tidings.broker.guard import Guard, OpenGuard
from tidings.broker.peers import Peers, enlist
from tidings.broker.session import Bye, Hello, Invalid, Ping, Session
from tidings.broker.writer import StoreWriter
from tidings.delivery.store import Store
from tidings.errors import LimitError, RemoteProtocolError, SecurityError, TidingsError
from tidings.kernel.forwarder import EventTuple, Flag, Forwarder, Kind
from tidings.node.effects import Close, Effect, Load, Log, Persist, Reply
from tidings.node.requests import Failed, Refused
from tidings.node.session import Principal
from tidings.node.settings import Settings

log = logging.getLogger("tidings.broker")

EVENTS, OUTPUT, BLOCKED = int(Flag.EVENTS), int(Flag.OUTPUT), int(Flag.BLOCKED)
FLUSH_BYTES = 1 << 20  # this much output does not wait for the end of the loop iteration
WRITE_BYTES = 1 << 20  # of one write to one socket
PERHAPS_SENT = 1  # flag of a PUBLISH frame: sent again after a broken connection
CLOSING_MS = 5_000  # a client that does not read its farewell is cut off after this silence
SERVER = "tidings"


@dataclass(frozen=True, slots=True)
class Limits:
    connections_max: int = 20_000
    connections_per_address_max: int = 20_000
    login_seconds: float = 10.0
    frame_bytes_max: int = 16 << 20
    output_bytes_max: int = 1 << 20
    memory_bytes_max: int = 512 << 20
    stall_ms: int = 1000
    heartbeat_ms: int = 30_000  # the longest silence the broker offers


@dataclass(frozen=True, slots=True)
class Listener:
    make_session: Callable[[], Session]
    host: str = "127.0.0.1"
    port: int = 7300
    tls: ssl.SSLContext | None = field(default=None, repr=False)


class Broker:
    def __init__(
        self,
        settings: Settings,
        store: Store,
        *,
        guard: Guard | None = None,
        limits: Limits | None = None,
        peers: Peers | None = None,
    ) -> None:
        self.settings = settings
        self.limits = limits or Limits()
        self.guard = guard or OpenGuard()
        self.forwarder = Forwarder(
            output_bytes_max=self.limits.output_bytes_max,
            memory_bytes_max=self.limits.memory_bytes_max,
            stall_ms=self.limits.stall_ms,
        )
        self.buffer = self.forwarder.buffer
        self.node, self.links = enlist(self, settings, peers)
        self.connections: dict[int, ClientConnection] = {}
        self.refused_logins = 0
        self._store = store
        self._writer: StoreWriter | None = None
        self._servers: list[asyncio.Server] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._per_address: dict[str, int] = {}
        self._flushing = False
        self._next_publisher = 1
        self._stopping = False

    @staticmethod
    def now_ms() -> int:
        return time.time_ns() // 1_000_000

    # --- life -----------------------------------------------------------------------------------------------------

    async def start(self, listeners: Iterable[Listener]) -> None:
        """Recover what the store holds, then listen."""
        self._loop = asyncio.get_running_loop()
        recovered = await self._loop.run_in_executor(None, self._store.recover)
        for damage in recovered.damaged:
            log.error("damaged record in the store: %s", damage.reason)
        self.node.recover(recovered, self.links.now())
        self._writer = StoreWriter(self._store, self._loop, on_written=self._written, on_read=self._read)
        for listener in listeners:
            await self.listen(listener)
        await self.links.start()
        self._spawn(self._keep_time())

    async def listen(self, listener: Listener) -> int:
        """Returns the port: the one asked for, or the one the system chose for 0."""
        server = await self._loop.create_server(
            lambda: ClientConnection(self, listener.make_session()),
            listener.host,
            listener.port,
            ssl=listener.tls,
            backlog=4096,
        )
        self._servers.append(server)
        port: int = server.sockets[0].getsockname()[1]
        log.info("listening for %s on %s port %d", listener.make_session().name, listener.host, port)
        return port

    async def stop(self) -> None:
        """Say good-bye, send and write what is under way, close."""
        self._stopping = True
        for server in self._servers:
            server.close()
        for connection in list(self.connections.values()):
            self._end(connection, "E_SHUTDOWN", "the broker is shutting down")
        await self.links.stop()
        await self._drained(2.0)
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._writer is not None:
            await self._writer.close()
        await self._loop.run_in_executor(None, self._store.close)

    async def _drained(self, seconds: float) -> None:
        deadline = self._loop.time() + seconds
        while self.connections and self._loop.time() < deadline:
            await asyncio.sleep(0.01)
        for connection in list(self.connections.values()):
            connection.abort()
        await asyncio.sleep(0)

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # --- sockets --------------------------------------------------------------------------------------------------

    def opened(self, connection: ClientConnection) -> None:
        at_address = self._per_address.get(connection.address, 0)
        full = len(self.connections) >= self.limits.connections_max
        connection.number = self.forwarder.open()
        self.connections[connection.number] = connection
        self._per_address[connection.address] = at_address + 1
        if full or at_address >= self.limits.connections_per_address_max or self._stopping:
            error = LimitError("E_CONNECTIONS", "too many connections", fatal=True)
            self.forwarder.send(connection.number, connection.session.error(error))
            self._close(connection)

    def lost(self, connection: ClientConnection) -> None:
        number = connection.number
        if number not in self.connections:
            return
        del self.connections[number]
        connection.number = -1
        left = self._per_address[connection.address] - 1
        if left:
            self._per_address[connection.address] = left
        else:
            del self._per_address[connection.address]
        self._carry_out(self.node.lost(self.now_ms(), number))
        self.forwarder.close(number)
        self._after()

    def react(self, connection: ClientConnection, flags: int) -> None:
        """What `feed` said must be done."""
        if flags & EVENTS:
            self._handle_events()
        if flags & BLOCKED and connection.number >= 0:
            # Handling events may have unblocked it: ask again, which also parses what was kept.
            if self.forwarder.resume(connection.number, self.now_ms()) & BLOCKED:
                connection.pause_reading()
            else:
                connection.resume_reading()
        self._after()

    def settle(self) -> None:
        """Something happened that concerns other brokers: handle it, and let the node finish its turn."""
        self._handle_events()
        self._carry_out(self.node.turn(self.now_ms()))
        self._after()

    def _after(self) -> None:
        """Follow up whatever was just done: publishers to resume, output to write."""
        for number in self.forwarder.take_resumable():
            resumed = self.connections.get(number)
            if resumed is not None:
                flags = self.forwarder.resume(number, self.now_ms())
                if not flags & BLOCKED:
                    resumed.resume_reading()
                if flags & EVENTS:
                    self._loop.call_soon(self._handle_events_later)
        self.flush_soon()

    def _handle_events_later(self) -> None:
        self._handle_events()
        self._after()

    def flush_soon(self) -> None:
        if self.forwarder.held_bytes() > FLUSH_BYTES:
            self._flush()
        elif not self._flushing:
            self._flushing = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        """One write for each connection with output."""
        self._flushing = False
        forwarder, now_ms = self.forwarder, self.now_ms()
        for number in forwarder.take_dirty():
            connection = self.connections.get(number)
            if connection is None:
                self.links.flush(number)
                continue
            data = forwarder.take(number, WRITE_BYTES, now_ms)
            if data:
                connection.write(data)
            if not forwarder.output_bytes(number):
                if connection.closing:
                    connection.close()
            elif connection.writable:  # there was more than one write takes: go on in the next round
                forwarder.set_writable(number, True)
                if not self._flushing:
                    self._flushing = True
                    self._loop.call_soon(self._flush)
        if forwarder.has_events():
            self._loop.call_soon(self._handle_events_later)

    def _close(self, connection: ClientConnection) -> None:
        """Close after what is in its output."""
        connection.closing = True
        connection.pause_reading()
        self._flush()

    def _end(self, connection: ClientConnection, code: str, reason: str) -> None:
        self.forwarder.send(connection.number, connection.session.close(code, reason))
        self._close(connection)

    # --- events ---------------------------------------------------------------------------------------------------

    def _handle_events(self) -> None:
        forwarder, node = self.forwarder, self.node
        while events := forwarder.events():
            for event in events:
                kind, number = event[0], event[1]
                connection = self.connections.get(number)
                if connection is None:
                    self.links.event(event)
                    continue
                if kind == Kind.MESSAGE:
                    _, _, flags, receipt, expires_ms, message, sinks = event
                    node.message(
                        number, receipt, message, sinks, expires_ms=expires_ms, perhaps_sent=bool(flags & PERHAPS_SENT)
                    )
                else:
                    self._handle_event(kind, connection, event)
            self._carry_out(node.turn(self.now_ms()))

    def _handle_event(self, kind: int, connection: ClientConnection, event: EventTuple) -> None:
        number = connection.number
        match kind:
            case Kind.CONTROL:
                self._control(connection, *event[2:])
            case Kind.TRANSACTED:
                self.node.transacted(number, *event[2:])
            case Kind.ASK:
                self._ask(connection, *event[2:])
            case Kind.ERROR:
                _, _, code, reason, position = event
                self._fail(connection, RemoteProtocolError(code, reason, position=position))
            case Kind.SLOW:
                self._end(connection, "E_SLOW_CONSUMER", f"subscription {event[2]} did not keep up")
            case Kind.ENTRY:
                self.node.from_network(self.now_ms(), event)
            case Kind.ROOM:
                self._carry_out(self.node.room(self.now_ms(), number))

    def _control(self, connection: ClientConnection, type: int, flags: int, session: int, payload: bytes) -> None:
        try:
            received = connection.session.receive(type, flags, session, payload)
        except TidingsError as error:
            self._fail(connection, error)
            return
        match received:
            case Hello():
                self._spawn(self._log_in(connection, received))
                return  # parsing goes on after the log-in
            case Ping():
                self.forwarder.send(connection.number, connection.session.pong())
            case Bye():
                self._close(connection)
                return
            case Invalid(receipt, wrong):
                self._answer(connection, Failed(receipt, wrong))
            case None:
                pass
            case request:
                self._carry_out(self.node.request(self.now_ms(), connection.number, request))
        self.forwarder.handled(connection.number, self.now_ms())

    def _ask(self, connection: ClientConnection, receipt: int, queue: bool, name: str) -> None:
        """May this client publish there? Asked once for each destination."""
        number = connection.number
        principal = self.node.connections[number].principal
        destination = f"{'queue' if queue else 'topic'}:{name}"
        if principal.may("publish", destination):
            self.forwarder.allow(number, destination)
        else:
            error = SecurityError("E_FORBIDDEN", f"{principal.name} may not publish to {destination}")
            self._answer(connection, Refused(receipt, error) if receipt else Failed(0, error))
            self.forwarder.skip(number)
        self.forwarder.handled(number, self.now_ms())

    def _fail(self, connection: ClientConnection, error: TidingsError) -> None:
        """The stream is broken: say why, and close."""
        fatal = RemoteProtocolError(error.code, error.reason, position=error.position)
        log.info("protocol error from %s: %s", connection.address, error)
        self.forwarder.send(connection.number, connection.session.error(fatal))
        self._close(connection)

    def _answer(self, connection: ClientConnection, answer: Failed | Refused) -> None:
        self.forwarder.send(connection.number, connection.session.answer(answer))

    async def _log_in(self, connection: ClientConnection, hello: Hello) -> None:
        number = connection.number
        try:
            if self.guard.open:
                principal = self.guard.log_in(hello, connection.address, "")
            else:
                certificate = connection.certificate_name()
                principal = await asyncio.to_thread(self.guard.log_in, hello, connection.address, certificate)
        except SecurityError as error:
            self.refused_logins += 1
            log.warning("log-in refused for %r from %s: %s", hello.user, connection.address, error.code)
            if connection.number == number:
                self._fail(connection, error)
                self._after()
            return
        if connection.number == number:
            self._logged_in(connection, hello, principal)

    def _logged_in(self, connection: ClientConnection, hello: Hello, principal: Principal) -> None:
        number = connection.number
        connection.logged_in = True
        connection.user = principal.name
        connection.heartbeat_ms = min(hello.heartbeat_ms or self.limits.heartbeat_ms, self.limits.heartbeat_ms)
        self.node.connected(number, principal, hello.client_id)
        self.forwarder.log_in(number, self.limits.frame_bytes_max, not self.guard.open)
        publisher = self._next_publisher
        self._next_publisher = publisher % 0xFFFF_FFFF + 1
        welcome = connection.session.welcome(
            {
                "server": SERVER,
                "broker": self.settings.broker_id,
                "publisher": publisher,
                "time_ms": self.now_ms(),
                "frame_max": self.limits.frame_bytes_max,
                "heartbeat_ms": connection.heartbeat_ms,
                "subscriptions_max": self.settings.subscriptions_max,
            }
        )
        self.forwarder.send(number, welcome)
        flags = self.forwarder.handled(number, self.now_ms())
        if not flags & BLOCKED:
            connection.resume_reading()
        self.react(connection, flags)

    # --- effects --------------------------------------------------------------------------------------------------

    def _carry_out(self, effects: list[Effect]) -> None:
        assert self._writer is not None
        for effect in effects:
            match effect:
                case Reply(number, answer):
                    self.forwarder.send(number, self.connections[number].session.answer(answer))
                case Persist(ticket, records):
                    self._writer.write(ticket, records)
                case Load(seqs):
                    self._writer.read(seqs)
                case Close(number, code, reason):
                    self._end(self.connections[number], code, reason)
                case Log(level, event, fields):
                    log.log(logging.getLevelName(level), "%s %s", event, fields)
                case _:
                    assert_never(effect)
        self.links.carry_out()

    def _written(self, tickets: list[int], error: TidingsError | None) -> None:
        if error is not None:
            log.error("the store refused a batch: %s", error)
        for ticket in tickets:
            self._carry_out(self.node.persisted(self.now_ms(), ticket, error))
        self._after()

    def _read(self, messages: dict[int, bytes]) -> None:
        self._carry_out(self.node.loaded(self.now_ms(), messages))
        self._after()

    # --- time -----------------------------------------------------------------------------------------------------

    async def _keep_time(self) -> None:
        ticks = 0
        while True:
            await asyncio.sleep(0.25)
            now_ms = self.now_ms()
            self.forwarder.check_stalls(now_ms)
            ticks += 1
            self.links.tell_time()
            if ticks % 4 == 0:
                self._carry_out(self.node.tick(now_ms))
                self._check_silence(now_ms)
            self._after()

    def _check_silence(self, now_ms: int) -> None:
        for connection in list(self.connections.values()):
            silent_ms = now_ms - connection.heard_ms
            if connection.closing:
                if silent_ms > CLOSING_MS:
                    connection.abort()
                continue
            if not connection.logged_in:
                if now_ms - connection.opened_ms > self.limits.login_seconds * 1000:
                    self._fail(connection, SecurityError("E_LOGIN_TIMEOUT", "no log-in in time", fatal=True))
            elif connection.heartbeat_ms and silent_ms > 2 * connection.heartbeat_ms:
                log.info("no sign of life from %s for %d ms", connection.address, silent_ms)
                connection.abort()
            elif connection.heartbeat_ms and silent_ms > connection.heartbeat_ms:
                self.forwarder.send(connection.number, connection.session.ping())
