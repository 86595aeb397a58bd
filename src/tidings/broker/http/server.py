"""A very small HTTP server for a few read-only pages. GET only; all resources of a client are bounded."""

import asyncio
import errno
import logging
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tidings.broker.connections.connection_limits import ConnectionLimits
from tidings.broker.connections.listener import Listener, TlsHandshakes
from tidings.broker.log_rate_limit import LogRateLimit
from tidings.broker.security.tls_failures import TlsFailures
from tidings.errors import UsageError

log = logging.getLogger("tidings.broker")

REQUEST_BYTES_MAX = 8 << 10
REQUEST_SECONDS = 5.0
CLIENTS_MAX = 64
RETRY_SECONDS = 0.1
_REASONS = {200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed", 503: "Service Unavailable"}


@dataclass(frozen=True, slots=True)
class HttpPage:
    body: str
    type: str = "text/plain; charset=utf-8"
    status: int = 200


class HttpEndpoint:
    def __init__(self, pages: Mapping[str, Callable[[], HttpPage]], failed: TlsFailures | None = None) -> None:
        self._pages = pages
        connection_limits = ConnectionLimits(lambda: (CLIENTS_MAX, CLIENTS_MAX))
        self._handshakes = TlsHandshakes(
            connection_limits, failed or TlsFailures(LogRateLimit()), lambda: REQUEST_SECONDS
        )
        self._listener: Listener | None = None
        self._clients: set[asyncio.Task[None]] = set()

    async def start(
        self, host: str, port: int, tls: ssl.SSLContext | None = None, *, patience_seconds: float = 0.0
    ) -> int:
        """Returns the port: the one asked for, or the one the system chose for 0.

        `patience_seconds`: how long to retry while a process that is about to end still has the port.
        """
        listener = Listener(host, port, self._make, self._handshakes, tls)
        loop = asyncio.get_running_loop()
        until = loop.time() + patience_seconds
        while True:
            try:
                await listener.open()
            except OSError as error:
                if error.errno == errno.EADDRINUSE and loop.time() < until:
                    await asyncio.sleep(RETRY_SECONDS)
                    continue
                reason = f"cannot listen on {host} port {port} for metrics ({error.strerror or error})"
                raise UsageError(
                    "E_LISTEN", f"{reason}; choose another port in [metrics] or with --metrics-port"
                ) from None
            self._listener = listener
            return listener.port

    def filenos(self) -> list[int]:
        """File numbers of its sockets, for another process that accepts while it pauses."""
        return [] if self._listener is None else self._listener.filenos()

    def pause(self) -> None:
        if self._listener is not None:
            self._listener.pause()

    async def resume(self) -> None:
        if self._listener is not None:
            await self._listener.resume()

    def renew(self, tls: ssl.SSLContext) -> None:
        """Use another certificate for new connections; an endpoint without TLS stays without."""
        if self._listener is not None and self._listener.tls is not None:
            self._listener.renew(tls)

    async def stop(self) -> None:
        if self._listener is not None:
            self._listener.close()
        for client in list(self._clients):
            client.cancel()
        await asyncio.gather(*self._clients, return_exceptions=True)

    def _make(self) -> asyncio.BaseProtocol:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=REQUEST_BYTES_MAX, loop=loop)
        return asyncio.StreamReaderProtocol(reader, self._accept, loop=loop)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._clients) >= CLIENTS_MAX:
            writer.transport.abort()
            return
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._clients.add(task)
        task.add_done_callback(self._clients.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                page = self._answer(await _head(reader))
                body = page.body.encode()
                head = f"HTTP/1.1 {page.status} {_REASONS[page.status]}\r\nContent-Type: {page.type}\r\n"
                allow = "Allow: GET\r\n" if page.status == 405 else ""
                head += f"{allow}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
                writer.write(head.encode() + body)
                await writer.drain()
                writer.close()
                await writer.wait_closed()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.CancelledError):
            writer.transport.abort()
        except Exception:  # no answer is better than a wrong one
            log.exception("internal error while serving an HTTP request")
            writer.transport.abort()

    def _answer(self, head: bytes) -> HttpPage:
        words = head.split(b"\r\n", 1)[0].split(b" ")
        if len(words) != 3 or not words[2].startswith(b"HTTP/1."):
            return HttpPage("malformed request: not HTTP/1.1\n", status=400)
        method, target = words[0], words[1].decode("ascii", errors="replace")
        if method != b"GET":
            return HttpPage("method not allowed: use GET\n", status=405)
        page = self._pages.get(target.split("?", 1)[0])
        return (
            HttpPage("no such page; available: " + " ".join(self._pages) + "\n", status=404) if page is None else page()
        )


async def _head(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError:
        return b""  # answered as a bad request
