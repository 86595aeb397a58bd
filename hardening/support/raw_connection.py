"""A connection of the native protocol without a client, to send what no client would."""

import asyncio
import socket

from tidings.model.values import Value
from tidings.protocols.native.frames import VERSION, FrameSplitter, FrameType, RawFrame, control, decode_fields


class RawConnection:
    """Frames as they come and go, whatever they say."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._splitter = FrameSplitter(1 << 26)
        self._frames: list[RawFrame] = []

    @classmethod
    async def open(cls, url: str, *, receive_bytes: int | None = None) -> "RawConnection":
        host, _, port = url.removeprefix("tidings://").partition(":")
        plain = socket.socket()
        plain.setblocking(False)
        if receive_bytes is not None:
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        await asyncio.get_running_loop().sock_connect(plain, (host, int(port)))
        return cls(*await asyncio.open_connection(sock=plain, limit=receive_bytes or 1 << 16))

    async def greet(self) -> dict[str, Value]:
        await self.send(control(FrameType.HELLO, {"version": VERSION}))
        return decode_fields((await self.frame()).payload)

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def frame(self) -> RawFrame:
        while not self._frames:
            data = await self.reader.read(1 << 16)
            if not data:
                raise ConnectionError("the broker closed the connection")
            self._frames += self._splitter.feed(data)
        return self._frames.pop(0)

    async def error(self) -> dict[str, Value]:
        """The fields of the error frame that comes before the broker closes the connection."""
        while (frame := await self.frame()).type != FrameType.ERROR:
            pass
        assert await self.reader.read(1) == b"", "closed after the error"
        self.writer.close()
        return decode_fields(frame.payload)
