"""A whole broker in virtual time: the engine and the kernel's forwarder that ship; the driver's part is played here.

Links carry bytes: the forwarder's output goes into the simulated stream as it is, and what arrives is fed to the
forwarder. Clients speak native frames (sim/client.py). Writing to disk takes a moment in two halves, so that a crash
can fall before or after the write; reading takes a moment too.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import count
from random import Random
from typing import Any, TypeAlias, assert_never

from tidings.errors import StoreError
from tidings.kernel.forwarder import Flag, Forwarder
from tidings.node import effects as nfx
from tidings.node import inputs
from tidings.node.clients.admission import Admission
from tidings.node.clients.client_sessions import ClientOptions
from tidings.node.clients.publish_dedup import recent_ids
from tidings.node.engine import REQUESTS_MAX, Engine
from tidings.node.inputs import Input, Now
from tidings.node.network.network import Network
from tidings.node.network.settings import NetworkSettings
from tidings.node.protocol_session import Hello, ProtocolSession
from tidings.node.requests import Request
from tidings.node.settings import NodeSettings
from tidings.overlay import effects as fx
from tidings.protocols.native.frames import encode_publish
from tidings.protocols.native.request_encoding import encode_hello, encode_request
from tidings.protocols.native.session import NativeSession
from tidings.protocols.stomp.session import StompSession
from tidings.sim.client import SimClient
from tidings.sim.host import WRITE_MS, Host
from tidings.sim.stomp_client import StompClient, stomp_frame

TICK_MS, TAKE_BYTES = 1000.0, 1 << 20
SOCKET_MS = 5.0  # of its rate, that the socket of a link takes at a time
RATE_MS = 20.0  # over which admission control measures
SOCKET = "socket "  # timers: the socket of a link takes more
READ = "read "  # timers: go on to read from a client that admission control has slowed down
DELIVERIES_MAX = 1_000_000  # nothing becomes a dead letter, however often its consumers go away
EVENTS, BLOCKED = int(Flag.EVENTS), int(Flag.BLOCKED)


class Everyone:
    """A principal that may do everything, as at a broker without users."""

    name = "anonymous"

    def may(self, operation: str, destination: str) -> bool:
        return True

    def restriction(self, destination: str, operation: str = "subscribe") -> str:
        return ""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Constants of brokers that a simulation may make small, so that what happens at their limits happens often."""

    read_bytes: int = 1 << 16  # of one read from a client
    take_bytes: int = TAKE_BYTES  # of one write to a client
    output_bytes_max: int = 1 << 20
    memory_bytes_max: int = 256 << 20
    link_bytes_ms: float | None = None  # that the socket of a link takes in a millisecond; None: all there is
    requests_max: int = REQUESTS_MAX
    settings: NodeSettings = field(default_factory=lambda: NodeSettings(deliveries_max=DELIVERIES_MAX))
    rate_allowed: float | None = None  # messages a second by admission control; None: there is none
    refuses: bool = False  # admission control turns newcomers away; otherwise it slows publishers down


class SimBroker:
    def __init__(
        self,
        network: NetworkSettings | None,
        host: Host,
        incarnation: int,
        rng: Random,
        sizes: Sizes | None = None,
        settings: NodeSettings | None = None,
    ) -> None:
        """Without a network it stands alone. `settings`: those of a lone broker, otherwise the simulation's."""
        self.sizes = sizes or Sizes()
        self._alone, self._router = network is None, 1 if network is None else network.router
        sizes, drawn = self.sizes, self.sizes.settings
        self.forwarder = Forwarder(
            read_bytes=4096,
            output_bytes_max=sizes.output_bytes_max,
            memory_bytes_max=sizes.memory_bytes_max,
            stall_ms=drawn.stall_ms,
        )
        self.admission: Admission | None = None
        if sizes.rate_allowed is not None:
            self.admission = Admission(0.1, refuses=sizes.refuses, rate_allowed=sizes.rate_allowed)
        self.slowed = 0  # times that a client was not read from for a while
        self._window = (0.0, 0)  # in which the rate of messages is measured: its beginning, and messages before it
        host.lives += 1
        self.life = host.lives
        self.engine = Engine(
            self.forwarder,
            settings or replace(drawn, broker_id=self._router),
            ClientOptions(count(1 + (self.life << 16)), admission=self.admission),
            network,
            tracking=host.records.settings,
            incarnation=incarnation,
            rng=rng,
            requests_max=self.sizes.requests_max,
        )
        self.clients: dict[int, SimClient] = {}
        self._host, self._records = host, host.records
        self._links: dict[str, int] = {}  # connection -> the forwarder's number
        self._unwritten: list[nfx.Persist] = []
        self._written: list[tuple[int, StoreError | None]] = []
        self._unread: list[tuple[int, ...]] = []  # asked for and not brought yet
        self._inquiries: list[nfx.Inquire] = []  # the same of the archive of histories
        self._out: list[Any] = []  # effects for the driver of the simulation
        self._dead = False  # the process ends in this moment, in the middle of what it does

    @property
    def network(self) -> Network:
        network = self.engine.node.network
        assert network is not None
        return network

    # --- the machine ----------------------------------------------------------------------------------------------

    def start(self, now: float) -> list[Any]:
        at = self._now(now)
        recovered = self._host.store.recover()
        self.engine.recover(at, recovered, recent_ids(self._host.store, recovered))
        stored_ms = self._records.archive.stored_ms(self._router)
        self.engine.start_tracking(at, self._records.changes, stored_ms)
        self._out.append(fx.SetTimer("tick", now + TICK_MS))
        return self._finish(now, None if self._alone else inputs.LinksReady(str(self._router)))

    def _now(self, now: float) -> Now:
        """The wall clock in whole milliseconds, and the time of links."""
        return Now(int(now + self._host.ahead_ms), now)

    def step(self, now: float, told: fx.Input) -> list[Any]:
        match told:
            case fx.Received(connection=connection, message=data):
                assert isinstance(data, bytes)
                if connection in self._links:
                    self.forwarder.feed_bytes(self._links[connection], data, self._now(now).wall_ms)
                return self._finish(now, inputs.PlaneReady())
            case fx.LinkAccepted(connection=connection) | fx.Connected(connection=connection):
                number = self._links[connection] = self.forwarder.open()
                return self._finish(now, inputs.LinkOpened(connection, number, isinstance(told, fx.Connected)))
            case fx.Lost(connection=connection):
                self._step(now, told)
                self._close_link(connection)
                return self._finish(now)
            case fx.Timer(name="tick"):
                self._out.append(fx.SetTimer("tick", now + TICK_MS))
                self.forwarder.check_stalls(self._now(now).wall_ms)
                self._step(now, inputs.Tick())
                return self._finish(now, inputs.TrackingTick())
            case fx.Timer(name="write"):
                return self._write(now)
            case fx.Timer(name="written"):
                return self._tell_written(now)
            case fx.Timer(name="read"):
                return self._read(now)
            case fx.Timer(name="resolve"):
                return self._resolve(now)
            case fx.Timer(name=name) if name.startswith(SOCKET):
                if (socket := self._links.get(name.removeprefix(SOCKET))) is not None:
                    self.forwarder.set_writable(socket, True)
                return self._finish(now)
            case fx.Timer(name=name) if name.startswith(READ):
                if (client := self.clients.get(int(name.removeprefix(READ)))) is not None:
                    client.paused = False
                return self._finish(now)
            case fx.Authenticated() | fx.Denied() | fx.Carried() | fx.Timer():
                return self._finish(now, told)
            case _:
                assert_never(told)

    def end(self) -> None:
        """The process ends in this moment: nothing comes of what it does from here on."""
        self._dead = True

    def order(self, now: float, told: Input) -> list[Any]:
        """An operator gives an order."""
        return self._finish(now, told)

    # --- clients --------------------------------------------------------------------------------------------------

    def connect(self, now: float, client_id: str = "", *, time_ms: int = 0) -> SimClient:
        """A client that has logged in, or will when the broker gets to it. The next call returns what came of it.
        `time_ms`: what its clock shows; 0: it wants no corrections."""
        client = self.open(now)
        self._send(now, client, encode_hello(Hello("", "", client_id, 0, time_ms)))
        return client

    def open(self, now: float, make: Callable[[int, int], SimClient] = SimClient) -> SimClient:
        """A client that has connected and sent nothing yet; `make`: of its number and the broker's life."""
        client = make(self.forwarder.open(), self.life)
        self._open(now, client, NativeSession())
        return client

    def connect_stomp(self, now: float) -> StompClient:
        """The same for a client that speaks STOMP."""
        client = StompClient(self.forwarder.open(), self.life)
        self._open(now, client, StompSession())
        self._send(now, client, stomp_frame("CONNECT", {"accept-version": "1.2", "host": "simulated"}))
        return client

    def _open(self, now: float, client: SimClient, session: ProtocolSession) -> None:
        self.clients[client.number] = client
        self._step(now, inputs.ClientOpened(client.number, session))

    def disconnect(self, now: float, client: SimClient) -> list[Any]:
        if client.number in self.clients:
            self._lose(now, client.number)
        return self._finish(now)

    def request(self, now: float, client: SimClient, request: Request) -> list[Any]:
        return self.send(now, client, encode_request(request))

    def publish(
        self, now: float, client: SimClient, message: bytes, receipt: int = 0, *, flags: int = 0, session: int = 0
    ) -> list[Any]:
        return self.send(now, client, encode_publish(receipt, message, session, flags))

    def send(self, now: float, client: SimClient, data: bytes) -> list[Any]:
        self._send(now, client, data)
        return self._finish(now)

    def read(self, now: float, client: SimClient, *, reads: bool) -> list[Any]:
        """From now on the client takes what it is sent, or does not."""
        client.reads = reads
        if client.number in self.clients:
            self.forwarder.set_writable(client.number, reads)
        return self._finish(now)

    def _send(self, now: float, client: SimClient, data: bytes) -> None:
        client.outgoing += data
        self._read_from(now, client)

    def _read_from(self, now: float, client: SimClient) -> None:
        """Read as much of what the client has sent as the plane takes."""
        wall_ms = self._now(now).wall_ms
        while client.may_be_read and client.number in self.clients and not self._dead:
            piece, client.outgoing = client.outgoing[: self.sizes.read_bytes], client.outgoing[self.sizes.read_bytes :]
            flags = self.forwarder.feed_bytes(client.number, piece, wall_ms)
            if flags & EVENTS:
                self._step(now, inputs.PlaneReady())
            if flags & BLOCKED and client.number in self.clients:
                client.held = bool(self.forwarder.resume(client.number, wall_ms) & BLOCKED)
            self._admit(now, client)

    def _admit(self, now: float, client: SimClient) -> None:
        """Admission control: here a client that publishes too much is not read from for a while."""
        admission = self.admission
        if admission is None or admission.rate_allowed is None:
            return
        (since, before), received = self._window, self.forwarder.received()
        if now - since >= RATE_MS:
            admission.rate, self._window = 1000 * (received - before) / (now - since), (now, received)
        if admission.overloaded and not admission.refuses:
            self.slowed += 1
            client.paused = True
            self._out.append(fx.SetTimer(f"{READ}{client.number}", now + 1000 / admission.rate_allowed))

    def _lose(self, now: float, number: int) -> None:
        self._step(now, inputs.ClientLost(number))
        self.clients.pop(number).gone_at = now
        self.forwarder.close(number)

    # --- what a driver does ---------------------------------------------------------------------------------------

    def _step(self, now: float, told: Input) -> None:
        if not self._dead:
            for effect in self.engine.step(self._now(now), told):
                self._carry_out(now, effect)

    def _finish(self, now: float, told: Input | None = None) -> list[Any]:
        """Handle what came of it until nothing more does; then output, and what the links ask for."""
        self._step(now, told or inputs.Turn())
        while not self._dead:
            if self._has_events():
                self._step(now, inputs.PlaneReady())
            for number in self.forwarder.take_resumable():
                if not self.forwarder.resume(number, self._now(now).wall_ms) & BLOCKED and number in self.clients:
                    self.clients[number].held = False
            for client in [one for one in self.clients.values() if one.may_be_read]:
                self._read_from(now, client)
            if not self._output(now) and not self._has_events():
                break
        out, self._out = self._out, []
        return [] if self._dead else out

    def _has_events(self) -> bool:
        return self.engine.has_requests or self.forwarder.has_events()

    def _carry_out(self, now: float, effect: nfx.Effect) -> None:
        match effect:
            case nfx.Persist():
                if not self._unwritten:
                    self._out.append(fx.SetTimer("write", now + self._host.write_ms / 2))
                self._unwritten.append(effect)
                self._host.asked(effect.records)
            case nfx.PersistNow():
                self._persist_now(now, effect)
            case nfx.LoadMessages(seqs=seqs):
                if not self._unread:
                    self._out.append(fx.SetTimer("read", now + self._read_ms))
                self._unread.append(seqs)
            case nfx.LogIn(connection, hello):
                self._step(now, inputs.LoggedIn(connection, hello, Everyone()))
            case nfx.ClientReady() | nfx.AuditAction() | nfx.AuditRefusal():
                pass  # there are no heartbeats here, and nobody audits
            case nfx.ResumeReading(connection):
                if (resumed := self.clients.get(connection)) is not None:
                    resumed.held = False
            case nfx.CloseClient(connection):
                self._end(now, connection)
            case nfx.Track(changes=changes, entries=entries, keys=keys):
                self._records.changes += changes
                self._records.archive.store(self._router, entries)
                self._records.archive.store_keys(self._router, keys)
            case nfx.Inquire():
                if not self._inquiries:
                    self._out.append(fx.SetTimer("resolve", now + self._host.write_ms / 2))
                self._inquiries.append(effect)
            case nfx.Log(fields=fields):
                if "exception" in fields:
                    raise AssertionError(f"a bug, which a real broker would survive:\n{fields['exception']}")
            case nfx.Inspection():
                raise AssertionError("simulated clients inspect nothing")
            case fx.CloseLink(connection=connection):
                self._close_link(connection)
                self._out.append(effect)
            case fx.Dial() | fx.SetTimer() | fx.Authenticate() | fx.Report():
                self._out.append(effect)
            case _:
                assert_never(effect)

    def _persist_now(self, now: float, effect: nfx.PersistNow) -> None:
        """A quick disk writes it at once; a crash may fall before the write, or after it and before the answer. A slow
        one takes as long as for any other batch."""
        if self._host.write_ms > WRITE_MS:
            self._carry_out(now, nfx.Persist(effect.ticket, effect.records))
            self._step(now, inputs.PersistLate())
        else:
            self._host.asked(effect.records)
            error = None if self._host.dying else self._host.write(effect.records)
            if self._host.dying:
                self._dead = True
                return
            self._step(now, inputs.PersistedNow(error))
            self._output(now)
        self._step(now, inputs.Turn())

    def _write(self, now: float) -> list[Any]:
        """The disk has it; the broker does not know yet."""
        writes, self._unwritten = self._unwritten, []
        self._written += [(write.ticket, self._host.write(write.records)) for write in writes]
        return [fx.SetTimer("written", now + self._host.write_ms / 2)]

    def _tell_written(self, now: float) -> list[Any]:
        written, self._written = self._written, []
        for ticket, error in written:
            self._step(now, inputs.Persisted((ticket,), error))
        self._output(now)
        return self._finish(now)

    def _read(self, now: float) -> list[Any]:
        self._step(now, inputs.Loaded(seqs := self._unread.pop(0), self._host.read(seqs)))
        if self._unread:
            self._out.append(fx.SetTimer("read", now + self._read_ms))
        return self._finish(now)

    @property
    def _read_ms(self) -> float:
        """The time it takes to load messages."""
        return self._host.read_ms or self._host.write_ms / 2

    def _resolve(self, now: float) -> list[Any]:
        inquiries, self._inquiries = self._inquiries, []
        for one in inquiries:
            answer = self.engine.recorder.look_up(one.inquiry, self._records.archive)
            self._step(now, inputs.Resolved(one.number, answer))
        return self._finish(now)

    def _output(self, now: float) -> bool:
        """Write all output; returns whether there was any."""
        names = {number: connection for connection, number in self._links.items()}
        some = False
        while dirty := self.forwarder.take_dirty():
            for number in dirty:
                if number in names:
                    some = True
                    self._transmit(now, names[number], number)
                elif (client := self.clients.get(number)) is not None and client.reads:
                    some = True
                    client.receive(self.forwarder.take(number, self.sizes.take_bytes, self._now(now).wall_ms), now)
                else:
                    self.forwarder.set_writable(number, False)
                    continue
                if self.forwarder.output_bytes(number) and (number not in names or self.sizes.link_bytes_ms is None):
                    self.forwarder.set_writable(number, True)
        return some

    def _transmit(self, now: float, connection: str, number: int) -> None:
        rate = self.sizes.link_bytes_ms
        size = TAKE_BYTES if rate is None else max(1, int(rate * SOCKET_MS))
        data = self.forwarder.take(number, size, self._now(now).wall_ms)
        self._out.append(fx.Transmit(connection, data))  # type: ignore[arg-type]  # bytes, not messages
        if rate is not None:
            self.forwarder.set_writable(number, False)
            self._out.append(fx.SetTimer(SOCKET + connection, now + len(data) / rate))

    def _end(self, now: float, connection: int) -> None:
        """The broker closes a client's connection, once its last words are written."""
        self._output(now)
        if connection in self.clients:
            self._lose(now, connection)

    def _close_link(self, connection: str) -> None:
        number = self._links.pop(connection, None)
        if number is not None:
            self.forwarder.close(number)


Action: TypeAlias = Callable[[SimBroker, float], list[Any]]
