"""A very small HTTP/1.1 server: a few read-only pages, and one handler for everything below a path.

One request per connection. Size and time of requests and the number of clients are bounded.
"""

import asyncio
import errno
import logging
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import TypeAlias

from tidings.broker.connections.connection_limits import ConnectionLimits
from tidings.broker.connections.listener import Listener, TlsHandshakes
from tidings.broker.log_rate_limit import LogRateLimit
from tidings.broker.security.tls_failures import TlsFailures
from tidings.errors import UsageError

log = logging.getLogger("tidings.broker")

HEAD_BYTES_MAX = 16 << 10
BODY_BYTES_MAX = 64 << 10
REQUEST_SECONDS = 5.0
CLIENTS_MAX = 64
RETRY_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class HttpPage:
    body: str
    type: str = "text/plain; charset=utf-8"
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class HttpRequest:
    method: str
    path: str  # as sent, without the query
    query: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)  # names in lower case
    body: bytes = b""
    address: str = ""
    certificate: str = ""  # common name of the client's certificate


HttpHandler: TypeAlias = Callable[[HttpRequest], Awaitable[HttpPage]]


class BadRequestError(Exception):
    """The bytes of a request are not acceptable; the page says why."""

    def __init__(self, status: int, reason: str) -> None:
        self.page = HttpPage(f"{reason}\n", status=status)
        super().__init__(reason)


class HttpEndpoint:
    """`handlers`: by prefix of the path; they judge methods and bodies themselves."""

    def __init__(
        self,
        pages: Mapping[str, Callable[[], HttpPage]],
        failed: TlsFailures | None = None,
        handlers: Mapping[str, HttpHandler] | None = None,
    ) -> None:
        self._pages, self._handlers = pages, handlers or {}
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
        reader = asyncio.StreamReader(limit=HEAD_BYTES_MAX, loop=loop)
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
            page, with_body = await self._answer(reader, writer)
            async with asyncio.timeout(REQUEST_SECONDS):
                writer.write(_encoded(page, with_body=with_body))
                await writer.drain()
                writer.close()
                await writer.wait_closed()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.CancelledError):
            writer.transport.abort()
        except Exception:  # no answer is better than a wrong one
            log.exception("internal error while serving an HTTP request")
            writer.transport.abort()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> tuple[HttpPage, bool]:
        """The page, and whether its body is to be sent: HEAD is answered as GET without it."""
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                request = await _read(reader, writer)
        except BadRequestError as error:
            return error.page, True
        if request.method == "HEAD":
            return await self._page(replace(request, method="GET")), False
        return await self._page(request), True

    async def _page(self, request: HttpRequest) -> HttpPage:
        for prefix, handler in self._handlers.items():
            if request.path.startswith(prefix):
                return await handler(request)
        if request.method != "GET":
            return HttpPage("method not allowed: use GET\n", status=405, headers=(("Allow", "GET, HEAD"),))
        page = self._pages.get(request.path)
        if page is None:
            return HttpPage("no such page; available: " + " ".join(self._pages) + "\n", status=404)
        return page()


def _encoded(page: HttpPage, *, with_body: bool) -> bytes:
    body = page.body.encode()
    lines = [f"HTTP/1.1 {page.status} {HTTPStatus(page.status).phrase}", f"Content-Type: {page.type}"]
    lines += [f"{name}: {value}" for name, value in page.headers]
    lines += [f"Content-Length: {len(body)}", "Connection: close"]
    return "\r\n".join([*lines, "", ""]).encode() + (body if with_body else b"")


async def _read(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> HttpRequest:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError:
        raise BadRequestError(400, "malformed request: not HTTP/1.1") from None
    first, *lines = head[:-4].split(b"\r\n")
    words = first.split(b" ")
    if len(words) != 3 or not words[2].startswith(b"HTTP/1."):
        raise BadRequestError(400, "malformed request: not HTTP/1.1")
    headers = _headers(lines)
    method, target = (word.decode("ascii", errors="replace") for word in words[:2])
    path, _, query = target.partition("?")
    body = await _body(reader, headers)
    peer = writer.get_extra_info("peername")
    certificate = writer.get_extra_info("peercert") or {}
    name = next((value for part in certificate.get("subject", ()) for key, value in part if key == "commonName"), "")
    return HttpRequest(method, path, query, headers, body, peer[0] if peer else "", name)


def _headers(lines: list[bytes]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.decode("latin-1").partition(":")
        if not colon or not name or name != name.strip():
            raise BadRequestError(400, "malformed request: a header without a name")
        if name.lower() in headers:  # the API reads none that may be repeated, and must not choose between two
            headers[name.lower()] += f", {value.strip()}"
        else:
            headers[name.lower()] = value.strip()
    return headers


async def _body(reader: asyncio.StreamReader, headers: Mapping[str, str]) -> bytes:
    if "transfer-encoding" in headers:
        raise BadRequestError(411, "send the body with Content-Length")
    length = headers.get("content-length", "0")
    if not (length.isascii() and length.isdigit()):
        raise BadRequestError(400, "malformed request: Content-Length is not a number")
    if len(length) > 9 or int(length) > BODY_BYTES_MAX:
        raise BadRequestError(413, f"the body is longer than {BODY_BYTES_MAX} bytes")
    return await reader.readexactly(int(length))
