"""A very small HTTP server for a few read-only pages. GET only; everything a client can do is bounded."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tidings.errors import UsageError

REQUEST_BYTES_MAX = 8 << 10
REQUEST_SECONDS = 5.0
CLIENTS_MAX = 64
_REASONS = {200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed", 503: "Service Unavailable"}


@dataclass(frozen=True, slots=True)
class Page:
    body: str
    type: str = "text/plain; charset=utf-8"
    status: int = 200


class HttpEndpoint:
    def __init__(self, pages: Mapping[str, Callable[[], Page]]) -> None:
        self._pages = pages
        self._server: asyncio.Server | None = None
        self._clients: set[asyncio.Task[None]] = set()

    async def start(self, host: str, port: int) -> int:
        """Returns the port: the one asked for, or the one the system chose for 0."""
        try:
            self._server = await asyncio.start_server(self._accept, host, port, limit=REQUEST_BYTES_MAX)
        except OSError as error:
            reason = f"cannot listen on {host} port {port} for metrics ({error.strerror or error})"
            raise UsageError("E_LISTEN", f"{reason}; choose another port in [metrics]") from None
        found: int = self._server.sockets[0].getsockname()[1]
        return found

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        for client in list(self._clients):
            client.cancel()
        await asyncio.gather(*self._clients, return_exceptions=True)

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

    def _answer(self, head: bytes) -> Page:
        words = head.split(b"\r\n", 1)[0].split(b" ")
        if len(words) != 3 or not words[2].startswith(b"HTTP/1."):
            return Page("this is not HTTP/1.1\n", status=400)
        method, target = words[0], words[1].decode("ascii", errors="replace")
        if method != b"GET":
            return Page("only GET is answered\n", status=405)
        page = self._pages.get(target.split("?", 1)[0])
        return Page("no such page; there are: " + " ".join(self._pages) + "\n", status=404) if page is None else page()


async def _head(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError:
        return b""  # answered as a bad request
