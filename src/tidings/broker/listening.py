"""A listening socket that can change its certificate.

The socket is ours; the event loop's server works on a duplicate of it. To renew the certificate a second server with
the new TLS context takes over the same queue of waiting clients, then the first is closed: nobody is turned away in
between, and connections that exist do not notice.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from tidings.broker.session import Caller, Gateway, Layer, Session
from tidings.errors import UsageError

BACKLOG = 4096


@dataclass(frozen=True, slots=True)
class Listener:
    make_session: Callable[[], Session]
    host: str = "127.0.0.1"
    port: int = 7300
    tls: ssl.SSLContext | None = field(default=None, repr=False)
    make_layer: Callable[[], Layer] | None = None  # if there are frames around the protocol
    make_gateway: Callable[[Caller], Gateway] | None = None  # another protocol, translated into the session's
    protocol: str = ""  # its name, if it is not the session's


class Listening:
    def __init__(
        self, listener: Listener, factory: Callable[[], asyncio.BaseProtocol], handshake_seconds: float
    ) -> None:
        self.listener = listener
        self._factory = factory
        self._handshake_seconds = handshake_seconds
        self._sockets: list[socket.socket] = []
        self._servers: list[asyncio.Server] = []

    @property
    def port(self) -> int:
        return int(self._sockets[0].getsockname()[1])

    async def open(self) -> None:
        listener = self.listener
        try:
            self._sockets = await _bind(listener.host, listener.port)
            self._servers = await self._serve()
        except OSError as error:
            self.close()
            where = f"{listener.host} port {listener.port}"
            reason = f"cannot listen on {where} ({error.strerror or error}); is another broker running there?"
            raise UsageError("E_LISTEN", reason) from None

    async def renew(self, tls: ssl.SSLContext) -> None:
        """Greet with another certificate from now on."""
        self.listener = replace(self.listener, tls=tls)
        old, self._servers = self._servers, await self._serve()
        for server in old:
            server.close()

    def close(self) -> None:
        for server in self._servers:
            server.close()
        for one in self._sockets:
            one.close()

    async def _serve(self) -> list[asyncio.Server]:
        loop, tls = asyncio.get_running_loop(), self.listener.tls
        return [
            await loop.create_server(
                self._factory,
                sock=one.dup(),
                ssl=tls,
                backlog=BACKLOG,
                ssl_handshake_timeout=self._handshake_seconds if tls is not None else None,
            )
            for one in self._sockets
        ]


async def _bind(host: str, port: int) -> list[socket.socket]:
    """A socket for each address that the name stands for, all with one port."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    sockets: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in dict.fromkeys(found):
            one = socket.socket(family, kind, protocol)
            sockets.append(one)
            one.setblocking(False)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            chosen = port or (sockets[0].getsockname()[1] if len(sockets) > 1 else 0)
            one.bind((address[0], chosen, *address[2:]))
            one.listen(BACKLOG)
    except OSError:
        for one in sockets:
            one.close()
        raise
    return sockets
