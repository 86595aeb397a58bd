"""A broker in the test's own event loop: real sockets, a store in memory."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import uvloop

from tidings.broker.guard import Guard
from tidings.broker.limits import Limits
from tidings.broker.listening import Listener
from tidings.broker.server import Broker
from tidings.delivery.store import MemoryStore
from tidings.node.settings import Settings
from tidings.protocols.native import NativeSession

T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    """On the event loop that the broker uses in earnest."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)


@dataclass(frozen=True, slots=True)
class Here:
    broker: Broker
    port: int

    @property
    def url(self) -> str:
        return f"tidings://127.0.0.1:{self.port}"


@asynccontextmanager
async def broker_here(
    *,
    guard: Guard | None = None,
    limits: Limits | None = None,
    settings: Settings | None = None,
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator[Here]:
    broker = Broker(settings or Settings(), MemoryStore(), guard=guard, limits=limits)
    await broker.start([])
    try:
        yield Here(broker, await broker.listen(Listener(NativeSession, "127.0.0.1", 0, tls)))
    finally:
        await broker.stop()
