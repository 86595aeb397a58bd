"""The real side of a pair: the broker that ships, on an event loop and a port of its own."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar, cast

import uvloop

from hardening.differential.paired import PING, FrameLog
from tidings.broker.connections.client_listeners import ListenerSettings
from tidings.broker.server import Broker
from tidings.delivery.store import MemoryStore, Store
from tidings.errors import TidingsError
from tidings.node import inputs
from tidings.node.effects import Effect, Inquire, LoadMessages
from tidings.node.limits import BrokerLimits
from tidings.node.settings import NodeSettings
from tidings.node.view import View
from tidings.protocols.native.frames import RawFrame
from tidings.protocols.native.session import NativeSession
from tidings.tracking.trace_answer import KeyAnswer, TraceAnswer

SETTLE_SECONDS = 20.0
POLL_SECONDS = 0.0002
T = TypeVar("T")


class _Disk(MemoryStore):
    """Outlives the broker's process."""

    def close(self) -> None:
        """The next process opens it again."""


class _UntimedBroker(Broker):
    """A broker whose clock does not tick, and which hears of its disk only on `complete`: so its disk
    is as slow as the simulator's."""

    def __init__(self, settings: NodeSettings, store: Store, limits: BrokerLimits) -> None:
        super().__init__(settings, store, limits=limits)
        self._asked = 0  # reads of the store and of the archive of histories that are under way
        self._resolve_done: list[tuple[int, TraceAnswer | KeyAnswer]] = []
        self._read_done: list[tuple[Sequence[int], dict[int, bytes], Sequence[int]]] = []
        self._write_done: list[tuple[Sequence[int], TidingsError | None]] = []

    @property
    def disk_busy(self) -> bool:
        assert self.writer is not None
        return bool(self.writer.busy or self._asked or self._resolve_done or self._read_done or self._write_done)

    def complete(self) -> None:
        """One read or write has come to an end; reads before writes."""
        if self._asked:
            return
        if self._resolve_done:
            super()._resolved(*self._resolve_done.pop(0))
        elif self._read_done:
            super()._read(*self._read_done.pop(0))
        elif self._write_done:
            super()._written(*self._write_done.pop(0))

    async def _keep_time(self) -> None:
        await asyncio.Event().wait()

    def _carry_out(self, effect: Effect) -> None:
        self._asked += isinstance(effect, LoadMessages | Inquire)
        super()._carry_out(effect)

    def _read(self, asked: Sequence[int], messages: dict[int, bytes], damaged: Sequence[int]) -> None:
        self._asked -= 1
        self._read_done.append((asked, messages, damaged))

    def _resolved(self, number: int, answer: TraceAnswer | KeyAnswer) -> None:
        self._asked -= 1
        self._resolve_done.append((number, answer))

    def _written(self, tickets: Sequence[int], error: TidingsError | None) -> None:
        self._write_done.append((tickets, error))


class _SocketClient(asyncio.Protocol):
    def __init__(self) -> None:
        self.log = FrameLog()
        self.open = True
        self.sent = False
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's are none by name

    def data_received(self, data: bytes) -> None:
        self.log.receive(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.open = False


class SocketBroker:
    """The broker that ships, on an event loop and a port of its own."""

    def __init__(self, settings: NodeSettings | None = None, *, output_bytes_max: int = 1 << 20) -> None:
        self._loop = uvloop.new_event_loop()
        self._settings, self._limits = settings or NodeSettings(), BrokerLimits(output_bytes_max=output_bytes_max)
        self._store = _Disk()
        self._clients: list[_SocketClient] = []
        self._broker = self._run(self._start())

    @property
    def view(self) -> View:
        return self._broker.engine.view

    def open(self) -> int:
        self._run(self._open())
        return len(self._clients) - 1

    def send(self, connection: int, data: bytes) -> None:
        client = self._clients[connection]
        if client.open:
            assert client.transport is not None
            client.transport.write(data)
            client.sent = True

    def settle(self) -> None:
        self._run(self._settle())

    def frames(self, connection: int) -> list[RawFrame]:
        return self._clients[connection].log.take()

    def is_open(self, connection: int) -> bool:
        return self._clients[connection].open

    def disconnect(self, connection: int) -> None:
        client = self._clients[connection]
        assert client.transport is not None
        if client.open:
            client.transport.write_eof()  # all that was sent is read, as nothing is answered to a closed socket
        self._run(self._until(lambda: not client.open and self._all_known()))

    def tick(self) -> None:
        self._run(self._tick())

    def restart(self) -> None:
        self._end()
        self._broker = self._run(self._start())

    def stop(self) -> None:
        self._end()
        self._run(self._loop.shutdown_default_executor())
        self._loop.close()

    def _end(self) -> None:
        for number, client in enumerate(self._clients):
            if client.open:
                self.disconnect(number)
        self.settle()
        while not self.view.idle:  # what nobody waits for is written at the next tick
            self.tick()
            self.settle()
        self._run(self._broker.stop())

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._loop.run_until_complete(work)

    async def _start(self) -> _UntimedBroker:
        broker = _UntimedBroker(self._settings, self._store, self._limits)
        await broker.start([])
        self._port = await broker.listen(ListenerSettings(NativeSession, "127.0.0.1", 0, None))
        return broker

    async def _open(self) -> None:
        _, client = await self._loop.create_connection(_SocketClient, "127.0.0.1", self._port)
        self._clients.append(client)
        await self._until(self._all_known)

    async def _tick(self) -> None:
        self._broker.step(inputs.Tick())
        self._broker.clients.after()

    async def _settle(self) -> None:
        await self._heard_from_all()
        await self._until(self._at_rest)
        await self._heard_from_all()
        await self._until(self._at_rest)

    async def _heard_from_all(self) -> None:
        """Everything sent so far was read, and every answer to it that takes no disk is here."""
        await self._until(lambda: all(one.log.welcome or not (one.open and one.sent) for one in self._clients))
        await asyncio.sleep(POLL_SECONDS)  # so that it is read apart from the ping
        before = [(client, client.log.pongs) for client in self._clients if client.open and client.log.welcome]
        for client, _ in before:
            assert client.transport is not None
            client.transport.write(PING)
        await self._until(lambda: all(not client.open or client.log.pongs > pongs for client, pongs in before))

    def _all_known(self) -> bool:
        """The broker knows of every connection, and of every one that has ended."""
        return len(self._broker.clients.connections) == sum(client.open for client in self._clients)

    def _at_rest(self) -> bool:
        self._broker.complete()
        plane = self._broker.forwarder
        busy = self._broker.disk_busy or plane.has_output() or plane.has_events() or plane.has_resumable()
        busy = busy or self._broker.engine.has_requests
        return not busy and self._all_known()

    async def _until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(SETTLE_SECONDS):
            while not condition():
                await asyncio.sleep(POLL_SECONDS)
