"""The client's socket: writes gathered within one turn of the event loop, frames handed on as they come."""

import asyncio
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import cast

from tidings.client.connection.answers import retrieved
from tidings.client.connection.progress import Progress
from tidings.errors import ConnectionLostError, TidingsError, UsageError
from tidings.model.codec import encode_frame
from tidings.protocols.native.frames import FrameSplitter, FrameType, RawFrame

GATHER_BYTES = 64 << 10
UNSENT_BYTES = 16 << 10
CLOSE_SECONDS = 2.0  # for the last words, and those of TLS
PING = encode_frame(FrameType.PING, b"")


class Transport(asyncio.Protocol):
    def __init__(self) -> None:
        self._splitter = FrameSplitter(1 << 20)
        self._transport: asyncio.Transport | None = None
        self._gathered: list[bytes] = []
        self._gathered_bytes = 0
        self._loop = asyncio.get_running_loop()
        self._first: asyncio.Future[RawFrame] = self._loop.create_future()
        self._first.add_done_callback(retrieved)  # nobody waits for it if connecting was cancelled
        self._on_frame: Callable[[RawFrame], None] = self._greeted
        self._on_lost: Callable[[Exception | None], None] = self._lost_early
        self.progress = Progress()  # of publications without a receipt
        self.writable = True  # the broker takes what is written: this is how push-back reaches a publisher
        self._on_writable: Callable[[], None] | None = None
        self._gone = asyncio.Event()
        self._failure: Exception | None = None
        self._heard = self._loop.time()
        self._beating: asyncio.TimerHandle | None = None

    @classmethod
    async def open(cls, host: str, port: int, tls: ssl.SSLContext | None, seconds: float) -> "Transport":
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(seconds):
                _, link = await loop.create_connection(cls, host, port, ssl=tls)
        except TimeoutError:
            raise ConnectionLostError("E_CONNECT_TIMEOUT", f"{host}:{port} did not answer in {seconds:g} s") from None
        except OSError as error:
            raise ConnectionLostError("E_CONNECT", f"cannot connect to {host}:{port}: {error}") from error
        except ValueError as error:  # of a name that cannot be looked up
            raise UsageError("E_URL", f"unknown host {host!r}: {error}") from None
        return link

    @property
    def payload_bytes_max(self) -> int:
        return self._splitter.payload_bytes_max

    @payload_bytes_max.setter
    def payload_bytes_max(self, limit: int) -> None:
        self._splitter.payload_bytes_max = limit

    async def greet(self, hello: bytes, seconds: float) -> RawFrame:
        """Send the first frame and wait for its answer."""
        self.write(hello)
        try:
            async with asyncio.timeout(seconds):
                return await self._first
        except TimeoutError:
            raise ConnectionLostError(
                "E_CONNECT_TIMEOUT", f"the broker did not answer HELLO in {seconds:g} s"
            ) from None

    def start(
        self,
        on_frame: Callable[[RawFrame], None],
        on_lost: Callable[[Exception | None], None],
        on_writable: Callable[[], None],
        heartbeat_ms: int,
    ) -> None:
        """These take what comes from now on."""
        if self._beating is not None:
            self._beating.cancel()
        self._on_frame, self._on_lost, self._on_writable = on_frame, on_lost, on_writable
        if heartbeat_ms:
            self._beat(heartbeat_ms / 1000)

    def write(self, frame: bytes) -> None:
        self._gathered.append(frame)
        self._gathered_bytes += len(frame)
        if len(self._gathered) == 1:
            self._loop.call_soon(self._flush)
        elif self._gathered_bytes > GATHER_BYTES:
            self._flush()

    def ping(self, then: Callable[[], None] | None = None) -> None:
        """Ask for a sign of life, which also proves that everything written before was read; then `then` is called."""
        self.progress.asked(then)
        self.write(PING)

    async def close(self, seconds: float = CLOSE_SECONDS) -> None:
        """Send what is gathered and close; what is not sent within `seconds` is lost."""
        self._flush()
        if self._transport is None:
            return
        self._transport.close()
        try:
            async with asyncio.timeout(seconds):
                await self._gone.wait()
        except TimeoutError:
            self._transport.abort()
            await asyncio.sleep(0)  # which is when it is gone
        except asyncio.CancelledError:
            self._transport.abort()
            raise

    # --- asyncio's side -------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        limit_unsent(transport.get_extra_info("socket"))

    def data_received(self, data: bytes) -> None:
        self._heard = self._loop.time()
        try:
            for frame in self._splitter.feed(data):
                self._on_frame(frame)
        except TidingsError as error:
            self._failure = error
            assert self._transport is not None
            self._transport.abort()

    def pause_writing(self) -> None:
        self.writable = False

    def resume_writing(self) -> None:
        self.writable = True
        if self._on_writable is not None:
            self._on_writable()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._beating is not None:
            self._beating.cancel()
        self._gone.set()
        self._on_lost(self._failure or exc)

    # --- inside ---------------------------------------------------------------------------------------------------

    def _flush(self) -> None:
        if self._gathered and self._transport is not None:
            data = b"".join(self._gathered)
            self._gathered.clear()
            self._gathered_bytes = 0
            try:
                self._transport.write(data)
            except RuntimeError:  # uvloop has closed it, and says so later, if at all
                self._loop.call_soon(self.connection_lost, None)

    def _beat(self, seconds: float) -> None:
        """A sign of life every half interval; twice the interval without one from the broker is the end."""
        if self._loop.time() - self._heard > 2 * seconds:
            self._failure = ConnectionLostError("E_HEARTBEAT", "no heartbeat from the broker")
            assert self._transport is not None
            self._transport.abort()
            return
        self.ping()
        self._beating = self._loop.call_later(seconds / 2, self._beat, seconds)

    def _greeted(self, frame: RawFrame) -> None:
        if not self._first.done():
            self._first.set_result(frame)

    def _lost_early(self, cause: Exception | None) -> None:
        if not self._first.done():
            reason = str(cause or "the broker closed the connection before it answered")
            self._first.set_exception(ConnectionLostError("E_CONNECTION_LOST", reason))


def limit_unsent(plain: socket.socket | None) -> None:
    """Let the system keep at most UNSENT_BYTES that the broker did not ask for yet; by itself it keeps megabytes, and a
    message waits behind them."""
    option = getattr(socket, "TCP_NOTSENT_LOWAT", None)  # Linux and macOS have it
    if plain is not None and option is not None:
        with suppress(OSError):
            plain.setsockopt(socket.IPPROTO_TCP, option, UNSENT_BYTES)
