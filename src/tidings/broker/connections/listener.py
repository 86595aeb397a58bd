"""An address where connections come in, with or without TLS.

Without, it is the event loop's server that accepts. With TLS that would tell of a connection only when its handshake is
done; until then it could not be counted, and clients that never finish one could hold any number. So this module
accepts, counts, refuses, and only then performs the handshake:

    accept ─► limits ─┬─ exceeded ─► closed
                      └─ handshake ─┬─ done ───► the protocol is made, and is counted there
                                    └─ failed ─► reported; the client gets the alert

The context is looked up at each handshake. Renewing a certificate replaces the context: no connection is refused, and
existing ones are not affected.
"""

import asyncio
import errno
import logging
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from tidings.broker.connections.connection_limits import ConnectionLimits
from tidings.broker.logs import note
from tidings.broker.security.tls import farewell_of
from tidings.broker.security.tls_failures import TlsFailures

log = logging.getLogger("tidings.tls")

BACKLOG = 4096
ACCEPTS_MAX = 128  # before other work gets its turn
EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
PAUSE_SECONDS = 1.0  # if there are no sockets left


@dataclass(frozen=True, slots=True)
class TlsHandshakes:
    """Limits and counters of TLS handshakes."""

    connection_limits: ConnectionLimits  # in which a connection counts until its handshake is over
    failed: TlsFailures
    seconds: Callable[[], float]  # how long one may take


class Listener:
    def __init__(
        self,
        host: str,
        port: int,
        make: Callable[[], asyncio.BaseProtocol],
        handshakes: TlsHandshakes,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.tls = tls
        self._host, self._port = host, port
        self._make = make
        self._handshakes = handshakes
        self._accepts = False
        self._sockets: list[socket.socket] = []
        self._servers: list[asyncio.Server] = []
        self._handshaking: set[asyncio.Task[None]] = set()

    @property
    def port(self) -> int:
        return int(self._sockets[0].getsockname()[1])

    async def open(self) -> None:
        """Bind and accept; an OSError if the address cannot be bound."""
        self._loop = asyncio.get_running_loop()
        try:
            self._sockets = await _bind(self._host, self._port)
            await self.resume()
        except OSError:
            self.close()
            raise

    def filenos(self) -> list[int]:
        """Of the sockets: another process may accept from them too."""
        return [one.fileno() for one in self._sockets]

    def each_socket(self, prepare: Callable[[socket.socket], None]) -> None:
        """Set options that accepted connections inherit."""
        for one in self._sockets:
            prepare(one)

    def pause(self) -> None:
        """Stop accepting, so that another process with the sockets can; connections that exist stay."""
        self._accepts = False
        for server in self._servers:
            server.close()
        self._servers.clear()
        for one in self._sockets:
            if one.fileno() >= 0:
                self._loop.remove_reader(one.fileno())

    async def resume(self) -> None:
        """Accept connections, including those that wait in the backlog."""
        if self._accepts:
            return
        self._accepts = True
        for one in self._sockets:
            if self.tls is None:
                server = await self._loop.create_server(self._make, sock=one.dup(), backlog=BACKLOG)
                self._servers.append(server)
            else:
                self._loop.add_reader(one.fileno(), self._accept, one)

    def renew(self, tls: ssl.SSLContext) -> None:
        """Use another certificate for new connections."""
        assert self.tls is not None, "a listener without TLS has no certificate"
        self.tls = tls

    def close(self) -> None:
        self.pause()
        for one in self._sockets:
            one.close()
        for task in self._handshaking:
            task.cancel()

    # --- TLS ------------------------------------------------------------------------------------------------------

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(ACCEPTS_MAX):
            try:
                client, peer = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in EXHAUSTED:
                    raise
                note(log, logging.ERROR, "cannot accept connections, retrying", reason=error.strerror)
                self._loop.remove_reader(listening.fileno())
                self._loop.call_later(PAUSE_SECONDS, self._accept_again, listening)
                return
            if self._handshakes.connection_limits.admit(peer[0]):
                client.setblocking(False)
                task = self._loop.create_task(self._handshake(client, peer[0]))
                self._handshaking.add(task)
                task.add_done_callback(self._handshaking.discard)
            else:
                client.close()

    def _accept_again(self, listening: socket.socket) -> None:
        if listening.fileno() >= 0 and self._accepts:
            self._loop.add_reader(listening.fileno(), self._accept, listening)

    async def _handshake(self, client: socket.socket, address: str) -> None:
        handshakes = self._handshakes
        entry = _Entry(self._make, lambda: handshakes.connection_limits.leave(address))
        ours: socket.socket | None = None
        try:
            ours = client.dup()  # the other one is closed before we know what is left to say
            await self._loop.connect_accepted_socket(
                lambda: entry, client, ssl=self.tls, ssl_handshake_timeout=handshakes.seconds()
            )
        except OSError as error:  # all that TLS complains of is one, too
            handshakes.failed.failed(address, f"{self._host}:{self.port}", error)
            if ours is not None and (farewell := farewell_of(error)):
                with suppress(OSError):
                    ours.send(farewell)
        finally:
            entry.leave()
            if ours is None:
                client.close()
            else:
                ours.close()


class _Entry(asyncio.Protocol):
    """Stands in for the protocol until the handshake is done."""

    def __init__(self, make: Callable[[], asyncio.BaseProtocol], leave: Callable[[], None]) -> None:
        self._make = make
        self._leave: Callable[[], None] | None = leave

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.leave()
        made = self._make()
        transport.set_protocol(made)
        made.connection_made(transport)

    def leave(self) -> None:
        """It no longer counts as a handshake."""
        if self._leave is not None:
            leave, self._leave = self._leave, None
            leave()


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
