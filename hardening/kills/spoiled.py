"""Kills with a proxy between broker and consumer that spoils deliveries: proves that the judge of histories sees it."""

import asyncio
import random
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from enum import Enum
from pathlib import Path

from hardening.kills.broker import BrokerProcess, consume, context, publish, quiet
from hardening.kills.ledger import Ledger
from tidings.client import connect
from tidings.protocols.native.frames import HEADER_BYTES, FrameType

EVERY = 7  # which delivery is spoiled
_HEADER = struct.Struct("<IB")
READ_BYTES = 1 << 16


class Defect(Enum):
    NONE = "none"
    REPEATED = "a delivery comes twice"
    SWAPPED = "two deliveries change places"
    LEFT_OUT = "a delivery is left out, and what comes after it is acknowledged for it"


class Spoiler:
    """The bytes from the broker, frame by frame, with one defect now and then."""

    def __init__(self, defect: Defect) -> None:
        self._defect, self._rest, self._deliveries = defect, b"", 0
        self._kept = b""  # the delivery that the next one overtakes

    def feed(self, data: bytes) -> bytes:
        self._rest += data
        out = []
        while len(self._rest) >= HEADER_BYTES:
            length, kind = _HEADER.unpack_from(self._rest)
            end = HEADER_BYTES + length
            if len(self._rest) < end:
                break
            frame, self._rest = self._rest[:end], self._rest[end:]
            out.append(self._spoil(frame) if kind == FrameType.DELIVER else frame)
        return b"".join(out)

    def _spoil(self, frame: bytes) -> bytes:
        self._deliveries += 1
        if self._kept:
            frame, self._kept = frame + self._kept, b""
        if self._deliveries % EVERY:
            return frame
        match self._defect:
            case Defect.NONE:
                return frame
            case Defect.REPEATED:
                return frame + frame
            case Defect.SWAPPED:
                self._kept = frame
                return b""
            case Defect.LEFT_OUT:
                return b""


@asynccontextmanager
async def proxy(port: int, defect: Defect) -> AsyncIterator[int]:
    """Yields the port at which clients reach the broker on `port`."""

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, spoiler: Spoiler | None) -> None:
        with suppress(OSError):
            while data := await reader.read(READ_BYTES):
                writer.write(data if spoiler is None else spoiler.feed(data))
                await writer.drain()
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            up, down = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            writer.close()
            return
        await asyncio.gather(pump(reader, down, None), pump(up, writer, Spoiler(defect)))

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def judged(folder: Path, defect: Defect, kills: int = 2, messages: int = 60, seed: int = 1) -> list[str]:
    """The judge's verdict on a broker that is killed while a consumer reads through the proxy."""
    context.set_forkserver_preload(["hardening.kills.broker"])
    rng, ledger, stop = random.Random(seed), Ledger(), asyncio.Event()
    broker = BrokerProcess(folder / "store")
    await asyncio.to_thread(broker.start)
    async with (
        proxy(broker.port, defect) as port,
        connect(f"tidings://127.0.0.1:{broker.port}", client_id="p") as writer,
        connect(f"tidings://127.0.0.1:{port}", client_id="a") as reader,
    ):
        subscription = await reader.subscribe("t.*", durable="d", ack="client", window=1000)
        reading = asyncio.create_task(consume(reader, subscription, "durable", ledger))
        writing = asyncio.create_task(publish(writer, ledger, stop))
        for _ in range(kills):
            await asyncio.to_thread(broker.end, rng)
            more = len(ledger.confirmed) + messages
            while len(ledger.confirmed) < more:
                await asyncio.sleep(0.01)
        stop.set()
        await writing
        await quiet(ledger, 5.0 if defect is Defect.LEFT_OUT else None)
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        problems = ledger.problems()
    broker.kill()
    return problems
