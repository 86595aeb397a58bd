"""A broker that speaks STOMP, for tests, and clients that say anything to it."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeAlias

from hardening.support.stomp import RawStomp
from tidings.broker.connections.client_listeners import ListenerSettings
from tidings.broker.security.user_guard import UserGuard
from tidings.broker.server import Broker
from tidings.delivery.store import MemoryStore
from tidings.node.limits import BrokerLimits
from tidings.node.settings import NodeSettings
from tidings.protocols.native.session import NativeSession
from tidings.protocols.stomp.frames import StompVersion
from tidings.protocols.stomp.session import StompSession
from tidings.testing.local_broker import run


class Place:
    def __init__(self, broker: Broker, port: int, url: str) -> None:
        self.broker, self.port, self.url = broker, port, url
        self._made: list[RawStomp] = []

    async def raw(self, version: StompVersion = StompVersion.V12) -> RawStomp:
        self._made.append(await RawStomp.open(self.port, version))
        return self._made[-1]

    async def client(self, version: StompVersion = StompVersion.V12, **headers: str) -> RawStomp:
        raw = await self.raw(version)
        await raw.connect(**headers)
        return raw

    async def leave(self) -> None:
        for one in self._made:
            await one.leave()


@asynccontextmanager
async def place(*, guard: UserGuard | None = None, limits: BrokerLimits | None = None) -> AsyncIterator[Place]:
    broker = Broker(NodeSettings(), MemoryStore(), guard=guard, limits=limits)
    await broker.start([])
    try:
        port = await broker.listen(ListenerSettings(StompSession, port=0))
        native = await broker.listen(ListenerSettings(NativeSession, port=0))
        here = Place(broker, port, f"tidings://127.0.0.1:{native}")
        try:
            yield here
        finally:
            await here.leave()
    finally:
        await broker.stop()


Check: TypeAlias = Callable[[Place], Awaitable[None]]


def with_broker(check: Check, limits: BrokerLimits | None = None) -> None:
    async def main() -> None:
        async with place(limits=limits) as here:
            await check(here)

    run(main())
