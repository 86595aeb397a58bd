"""A broker for tests, on loopback with real sockets: in the test's own event loop, or on a thread of its own."""

import asyncio
import ssl
import tempfile
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import uvloop

from tidings.broker.connections.client_listeners import ListenerSettings
from tidings.broker.security.guard import Guard
from tidings.broker.server import Broker
from tidings.broker.tracking_thread import TrackingOptions
from tidings.delivery.store import MemoryStore, Store
from tidings.node.clients.admission import Admission
from tidings.node.limits import BrokerLimits
from tidings.node.settings import NodeSettings
from tidings.protocols.amqp.session import AmqpSession
from tidings.protocols.http.session import HttpSession
from tidings.protocols.mqtt.clients import MqttClients
from tidings.protocols.mqtt.session import MqttNativeSession, MqttSession
from tidings.protocols.mqtt.websocket import MqttWebSocketSession
from tidings.protocols.native.session import NativeSession
from tidings.protocols.stomp.session import StompSession
from tidings.protocols.websocket.frames import WebSocketLayer
from tidings.store.sqlite.store import SqliteStore
from tidings.tracking.recording.recorder import TrackingSettings as TrackingSettings

SECONDS = 60.0  # a test that waits longer has failed
T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    """On the event loop that the broker uses in earnest."""
    return _run(work, uvloop.new_event_loop)


def run_plain(work: Coroutine[Any, Any, T]) -> T:
    """On asyncio's own event loop, which must do as well."""
    return _run(work, asyncio.new_event_loop)


def _run(work: Coroutine[Any, Any, T], make_loop: Callable[[], asyncio.AbstractEventLoop]) -> T:
    async def bounded() -> T:
        async with asyncio.timeout(SECONDS):
            return await work

    with asyncio.Runner(loop_factory=make_loop) as runner:
        return runner.run(bounded())


class Local(NamedTuple):
    broker: Broker
    url: str

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])


@asynccontextmanager
async def local_broker(
    store: Store | None = None,
    *,
    guard: Guard | None = None,
    limits: BrokerLimits | None = None,
    settings: NodeSettings | None = None,
    tls: ssl.SSLContext | None = None,
    port: int = 0,
    tracking: TrackingOptions | None = None,
    admission: Admission | None = None,
) -> AsyncIterator[Local]:
    """In this event loop; without a store of its own, one in memory."""
    broker = Broker(
        settings or NodeSettings(),
        store or MemoryStore(),
        guard=guard,
        limits=limits,
        tracking=tracking,
        admission=admission,
    )
    await broker.start([])
    try:
        port = await broker.listen(ListenerSettings(NativeSession, "127.0.0.1", port, tls))
        yield Local(broker, f"tidings://127.0.0.1:{port}")
    finally:
        await broker.stop()


class BrokerThread:
    """`with BrokerThread() as broker:` and connect to `broker.url`; by AMQP (with the extra `amqp`) to `broker.amqp`.

    Retained messages of MQTT need settings with `last_values`."""

    def __init__(
        self,
        settings: NodeSettings | None = None,
        *,
        guard: Guard | None = None,
        limits: BrokerLimits | None = None,
        amqp_tls: ssl.SSLContext | None = None,
        mqtt_tls: ssl.SSLContext | None = None,
        tracking: TrackingSettings | None = None,
    ) -> None:
        self.url = self.amqp = ""
        self.port = self.stomp_port = self.websocket_port = self.amqp_port = self.mqtt_port = self.http_port = 0
        self.mqtt_websocket_port = self.mqtt_tls_port = 0
        self._settings = settings
        self._guard = guard
        self._limits = limits
        self._amqp_tls = amqp_tls
        self._mqtt_tls = mqtt_tls
        self._tracking = tracking
        self._broker: Broker | None = None
        self._folder = tempfile.TemporaryDirectory()
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="broker", daemon=True)

    def __enter__(self) -> "BrokerThread":
        self._thread.start()
        self._ready.wait(SECONDS)
        assert self.url, "the broker did not start"
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(SECONDS)
        self._folder.cleanup()

    def retrieved(self) -> int:
        """Retained messages that were sent to readers so far."""
        assert self._broker is not None
        return self._broker.engine.node.retaining.retrieved

    def limits(self, name: str) -> tuple[int, int]:
        """Milliseconds and bytes that a retained subscription may keep."""
        assert self._broker is not None
        retention = next(
            one.retention
            for one in self._broker.engine.node.mailbox_service.mailboxes.retained.values()
            if one.name == f"retained:{name}"
        )
        return retention.age_ms, retention.bytes_max

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        store = SqliteStore(Path(self._folder.name) / "store.db")
        tracking = None
        if self._tracking is not None:
            tracking = TrackingOptions(self._tracking, Path(self._folder.name) / "tracking")
        async with local_broker(
            store,
            settings=self._settings,
            guard=self._guard,
            limits=self._limits,
            tracking=tracking,
        ) as local:
            self._broker = local.broker
            self.stomp_port = await local.broker.listen(ListenerSettings(StompSession, port=0))
            make_layer = partial(WebSocketLayer, ("https://pages.example",))
            web = ListenerSettings(StompSession, port=0, make_layer=make_layer, protocol="websocket")
            self.websocket_port = await local.broker.listen(web)
            amqp = ListenerSettings(
                NativeSession, port=0, tls=self._amqp_tls, make_gateway=AmqpSession, protocol="amqp"
            )
            self.amqp_port = await local.broker.listen(amqp)
            self.amqp = f"127.0.0.1:{self.amqp_port}"
            make_mqtt = partial(MqttSession, MqttClients())
            mqtt = ListenerSettings(MqttNativeSession, port=0, make_gateway=make_mqtt, protocol="mqtt")
            self.mqtt_port = await local.broker.listen(mqtt)
            make_web = partial(MqttWebSocketSession, make_mqtt, ())
            self.mqtt_websocket_port = await local.broker.listen(
                ListenerSettings(MqttNativeSession, port=0, make_gateway=make_web, protocol="mqtt-websocket")
            )
            http = ListenerSettings(
                NativeSession, port=0, make_gateway=partial(HttpSession, ("https://pages.example",)), protocol="http"
            )
            self.http_port = await local.broker.listen(http)
            encrypted = replace(mqtt, tls=self._mqtt_tls)
            self.mqtt_tls_port = 0 if self._mqtt_tls is None else await local.broker.listen(encrypted)
            self.port, self.url = local.port, local.url
            self._ready.set()
            await self._stop.wait()
