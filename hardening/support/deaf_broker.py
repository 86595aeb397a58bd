"""A broker for tests of clients that accepts every login, then reads only on request and answers nothing."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tidings.protocols.native.frames import VERSION, FrameSplitter, FrameType, RawFrame, control


class DeafBroker:
    def __init__(self) -> None:
        self.url = ""
        self.reads = asyncio.Event()  # set it, and all that comes is in `frames`
        self.frames: list[RawFrame] = []
        self.writers: list[asyncio.StreamWriter] = []  # of all connections, the latest last

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        splitter = FrameSplitter(1 << 24)
        (hello,) = list(splitter.feed(await reader.read(1 << 16)))
        assert hello.type == FrameType.HELLO
        writer.write(control(FrameType.WELCOME, {"version": VERSION, "publisher": len(self.writers), "broker": 1}))
        await self.reads.wait()
        while data := await reader.read(1 << 16):
            self.frames += splitter.feed(data)

    def published(self) -> list[RawFrame]:
        return [frame for frame in self.frames if frame.type == FrameType.PUBLISH]

    async def published_are(self, count: int) -> None:
        """Return when `count` publications have arrived."""
        while len(self.published()) < count:
            await asyncio.sleep(0.001)


@asynccontextmanager
async def deaf_broker() -> AsyncIterator[DeafBroker]:
    broker = DeafBroker()
    async with await asyncio.start_server(broker.serve, "127.0.0.1", 0, limit=1 << 16) as server:
        broker.url = f"tidings://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            yield broker
        finally:
            broker.reads.set()
            for writer in broker.writers:
                writer.transport.abort()
