"""A real broker on loopback for tests: real sockets, a store of its own, on a thread of its own."""

import asyncio
import ssl
import tempfile
import threading
from pathlib import Path

from tidings.broker.guard import Guard
from tidings.broker.server import Broker, Limits, Listener
from tidings.broker.sqlite_store import SqliteStore
from tidings.node.settings import Settings
from tidings.protocols.amqp import AmqpSession
from tidings.protocols.native import NativeSession
from tidings.protocols.stomp import StompSession
from tidings.protocols.websocket import WebSocketLayer


class BrokerThread:
    """`with BrokerThread() as broker:` and connect to `broker.url`, or by AMQP to `broker.amqp`."""

    def __init__(
        self,
        settings: Settings | None = None,
        *,
        guard: Guard | None = None,
        limits: Limits | None = None,
        amqp_tls: ssl.SSLContext | None = None,
    ) -> None:
        self.port = self.stomp_port = self.websocket_port = self.amqp_port = 0
        self._guard = guard
        self._limits = limits
        self._amqp_tls = amqp_tls
        self._settings = settings or Settings()
        self._folder = tempfile.TemporaryDirectory()
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._stop: asyncio.Event | None = None
        self._broker: Broker | None = None
        self._thread = threading.Thread(target=self._run, name="broker", daemon=True)

    @property
    def url(self) -> str:
        return f"tidings://127.0.0.1:{self.port}"

    @property
    def amqp(self) -> str:
        return f"127.0.0.1:{self.amqp_port}"

    def __enter__(self) -> "BrokerThread":
        self._thread.start()
        self._ready.wait(10)
        assert self.port, "the broker did not start"
        return self

    def __exit__(self, *_: object) -> None:
        assert self._stop is not None
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)
        self._folder.cleanup()

    def retrieved(self) -> int:
        """Retained messages that were sent to readers so far."""
        assert self._broker is not None
        return self._broker.node.retaining.retrieved

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        self._stop = asyncio.Event()
        store = SqliteStore(Path(self._folder.name) / "store.db")
        self._broker = broker = Broker(self._settings, store, guard=self._guard, limits=self._limits)
        await broker.start([])
        self.stomp_port = await broker.listen(Listener(StompSession, port=0))
        web = Listener(StompSession, port=0, make_layer=lambda: WebSocketLayer(("https://pages.example",)))
        self.websocket_port = await broker.listen(web)
        self.amqp_port = await broker.listen(
            Listener(NativeSession, port=0, tls=self._amqp_tls, make_gateway=AmqpSession)
        )
        self.port = await broker.listen(Listener(NativeSession, port=0))
        self._ready.set()
        await self._stop.wait()
        await broker.stop()
