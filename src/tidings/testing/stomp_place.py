"""A broker that speaks STOMP, for tests, and clients that say anything to it."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeAlias

from tidings.broker.listening import Listener
from tidings.broker.server import Broker
from tidings.broker.user_guard import UserGuard
from tidings.delivery.store import MemoryStore
from tidings.node.limits import Limits
from tidings.node.settings import Settings
from tidings.protocols.native import NativeSession
from tidings.protocols.stomp import StompSession
from tidings.protocols.stomp_frames import Version
from tidings.testing.local_broker import run
from tidings.testing.stomp import RawStomp


class Place:
    def __init__(self, broker: Broker, port: int, url: str) -> None:
        self.broker, self.port, self.url = broker, port, url
        self._made: list[RawStomp] = []

    async def raw(self, version: Version = Version.V12) -> RawStomp:
        self._made.append(await RawStomp.open(self.port, version))
        return self._made[-1]

    async def client(self, version: Version = Version.V12, **headers: str) -> RawStomp:
        raw = await self.raw(version)
        await raw.connect(**headers)
        return raw

    async def leave(self) -> None:
        for one in self._made:
            await one.leave()


@asynccontextmanager
async def place(*, guard: UserGuard | None = None, limits: Limits | None = None) -> AsyncIterator[Place]:
    broker = Broker(Settings(), MemoryStore(), guard=guard, limits=limits)
    await broker.start([])
    try:
        port = await broker.listen(Listener(StompSession, port=0))
        native = await broker.listen(Listener(NativeSession, port=0))
        here = Place(broker, port, f"tidings://127.0.0.1:{native}")
        try:
            yield here
        finally:
            await here.leave()
    finally:
        await broker.stop()


Check: TypeAlias = Callable[[Place], Awaitable[None]]


def with_broker(check: Check, limits: Limits | None = None) -> None:
    async def main() -> None:
        async with place(limits=limits) as here:
            await check(here)

    run(main())
