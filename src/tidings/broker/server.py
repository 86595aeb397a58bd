"""The asyncio driver: connects sockets, the forwarder, the node and the store's thread.

    intake ─► forwarder.feed ─┬─ output ─► at once, or once a loop iteration: one write a connection
                              └─ events ─► session ─► node ─► effects ─► forwarder, store, sockets

Plain messages take the upper way, small reads without Python. All is on one event loop but log-ins and the store.
"""

import asyncio
import logging
import secrets
import ssl
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import count
from typing import assert_never

from tidings.broker.admission import Admission
from tidings.broker.admitted_connection import make_connection
from tidings.broker.clients import Clients
from tidings.broker.connection import ClientConnection
from tidings.broker.events import Events
from tidings.broker.flushing import Flushing
from tidings.broker.guard import Guard, OpenGuard
from tidings.broker.life import check_silence, give_signs
from tidings.broker.limits import Limits
from tidings.broker.listening import Listener, Listening, client_handshakes
from tidings.broker.logs import note
from tidings.broker.naps import Naps
from tidings.broker.observing import Aside, Observer
from tidings.broker.peers import Peers, enlist
from tidings.broker.reception import Reception
from tidings.broker.tasks import Steps, Tasks
from tidings.broker.tracking_thread import TrackingOptions, TrackingThread
from tidings.broker.writer import StoreWriter
from tidings.delivery.store import Store
from tidings.errors import TidingsError
from tidings.kernel import clock
from tidings.kernel.forwarder import Flag, Forwarder
from tidings.node.effects import Close, Effect, Inquire, Load, Log, Persist, Reply, Track
from tidings.node.settings import Settings
from tidings.tracking.record import Answer

__all__ = ["Broker", "Limits", "Listener"]

log = logging.getLogger("tidings.broker")

EVENTS, BLOCKED = int(Flag.EVENTS), int(Flag.BLOCKED)
SETTLE_SECONDS = 5.0  # what a shutdown gives the disk for messages under way


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
        self.node, self.links = enlist(self, settings, peers, tracking.settings if tracking else None)
        self.tracking = TrackingThread(tracking, settings.broker_id)
        self.refused_logins: Counter[str] = Counter()  # by code
        self.observer: Observer | None = None  # of its counters
        self.aside = Aside()
        self.ready = False
        self._store = store
        self.writer: StoreWriter | None = None
        self.listening: list[Listening] = []
        self.tasks = Tasks()
        self.handshakes = client_handshakes(lambda: self.limits)
        flushing = Flushing(self)
        self.flush, self.flush_soon = flushing.now, flushing.soon
        self.clients = Clients(self.forwarder, self.handshakes.crowd, self._left, self.flush)
        self._handle_events = Events(self).handle
        self.reception = Reception(self)

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
        self.clients.closed, self.ready = True, False
        self.loop = asyncio.get_running_loop()  # it may never have been started
        for listening in self.listening:
            listening.close()
        for connection in self.clients.connections.values():
            connection.pause_reading()
        await self._settled()
        self.clients.end_all("E_SHUTDOWN", "the broker is shutting down")
        await self.links.stop()
        await self._drained(2.0)
        await self._settled()
        await self.tasks.cancel()
        self.reception.close()
        if self.writer is not None:
            self.carry_out(self.node.stop_tracking(self.now_ms()))
            await self.tracking.close()
            await self.writer.close()
        await self.loop.run_in_executor(None, self._store.close)

    async def _settled(self) -> None:
        """Receipts for what is on its way to disk go out before the good-byes, and what nobody waits for is written."""
        deadline = self.loop.time() + SETTLE_SECONDS
        while self.writer is not None and not self.node.idle and self.loop.time() < deadline:
            self.carry_out(self.node.tick(self.now_ms()))
            await asyncio.sleep(0.01)

    async def _drained(self, seconds: float) -> None:
        deadline = self.loop.time() + seconds
        while self.clients.connections and self.loop.time() < deadline:
            await asyncio.sleep(0.01)
        for connection in list(self.clients.connections.values()):
            connection.abort()
        await asyncio.sleep(0)

    def renew_tls(self, tls: ssl.SSLContext) -> None:
        """Another certificate for all who connect from now on."""
        for listening in self.listening:
            if listening.tls is not None:
                listening.renew(tls)

    # --- sockets --------------------------------------------------------------------------------------------------

    def lost(self, connection: ClientConnection) -> None:
        if connection.number not in self.clients.connections:
            return
        try:
            self._handle_events()  # what it published before it left counts
        finally:
            self.clients.lost(connection)
        self.after()

    def _left(self, number: int) -> None:
        self.carry_out(self.node.lost(self.now_ms(), number))

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
        self.carry_out(self.node.turn(self.now_ms()))
        self.after()

    def after(self, *, flush: bool = False) -> None:
        """Follow up whatever was just done: publishers to resume, output to write."""
        for number in self.forwarder.take_resumable():
            resumed = self.clients.connections.get(number)
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

    # --- effects --------------------------------------------------------------------------------------------------

    def carry_out(self, effects: list[Effect]) -> None:
        assert self.writer is not None
        for effect in effects:
            match effect:
                case Reply(number, answer):
                    self.clients.answer(self.clients.connections[number], answer)
                case Persist(ticket, records):
                    self.writer.write(ticket, records)
                case Load(seqs):
                    self.writer.read(seqs)
                case Close(number, code, reason):
                    self.clients.end(self.clients.connections[number], code, reason)
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
            self.carry_out(self.node.persisted(ticket, error))
        if self.forwarder.has_output():
            self.flush()  # receipts first: publishers may go on while we see to the deliveries
        self.carry_out(self.node.turn(self.now_ms()))
        self.after(flush=True)

    def _resolved(self, number: int, answer: Answer) -> None:
        """What stored histories say about a message."""
        self.carry_out(self.node.resolved(self.now_ms(), number, answer))
        self.after()

    def _read(self, asked: Sequence[int], messages: dict[int, bytes], damaged: Sequence[int]) -> None:
        self.carry_out(self.node.loaded(self.now_ms(), asked, messages, damaged))
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
        self.carry_out(door(now_ms))
