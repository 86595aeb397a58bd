"""A wire between two brokers that can be cut: a small TCP relay that stands where the dialled broker would."""

import asyncio
from contextlib import suppress

CHUNK_BYTES = 64 << 10


class TcpWire:
    """Dial `port` to reach `target`. While it is cut, connections end and new ones are turned away."""

    def __init__(self, port: int, target: int) -> None:
        self.port, self.target = port, target
        self.up = True
        self.mute = False  # what the target says is thrown away
        self.bytes_s = 0  # what it carries each way; 0: whatever comes
        self._cuts = 0
        self._server: asyncio.Server | None = None
        self._ends: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)

    async def stop(self) -> None:
        self.cut()
        if self._server is not None:
            self._server.close()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def cut(self) -> None:
        """Cuts the wire; data in transit is lost."""
        self.up = False
        self._cuts += 1
        for end in list(self._ends):
            end.transport.abort()

    def heal(self) -> None:
        self.up = True

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self.up:
            writer.transport.abort()
            return
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        cuts = self._cuts
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            writer.transport.abort()
            self._tasks.discard(task)
            return
        self._ends |= {writer, far_writer}
        if self._cuts != cuts:  # meanwhile
            writer.transport.abort()
        await asyncio.gather(self._pass(reader, far_writer), self._pass(far_reader, writer, answers=True))
        self._ends -= {writer, far_writer}
        self._tasks.discard(task)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, answers: bool = False) -> None:
        with suppress(OSError):
            while data := await reader.read(CHUNK_BYTES):
                if self.bytes_s:
                    await asyncio.sleep(len(data) / self.bytes_s)
                if not (answers and self.mute):
                    writer.write(data)
                    await writer.drain()
        writer.transport.abort()
