"""The socket of a link to another broker: bytes go to the forwarder, its output comes back.

A message is small beside the headers of TCP and IP and the acknowledgement that a segment costs. So on a link that is
busy output is gathered: what comes within a few milliseconds of the last write (gathering.py) waits until that time is
over, or until it fills a segment; what does not fill another one stays behind. What comes after a pause goes at once,
and so do control messages, whose round trips are measured. (Nagle's algorithm would wait for the peer's
acknowledgement instead, which it delays by 40 ms.) Acknowledgements are put off, too: on most links something soon goes
the other way that carries them.
"""

import asyncio
import socket
import ssl
from collections import deque
from typing import Protocol, cast

from tidings.broker.connections.connection import own_socket
from tidings.broker.links.link_batching import LinkBatching
from tidings.node.network.link_channels import CONTROL_FRAME
from tidings.overlay.link.machine import TLS

TYPE, CONTROL = slice(4, 5), bytes((CONTROL_FRAME,))  # of a frame, where output begins with one
SEGMENT_BYTES = 1448  # what one carries: 1500 bytes less the headers of IP and TCP
GATHER_BYTES = 16 << 10  # are written without waiting for more: the last segment need not be full
TCP_QUICKACK = getattr(socket, "TCP_QUICKACK", None)  # Linux has it
TICK_SECONDS = 1e-3  # of the event loop's timers: a shorter one would only keep it busy
TLS_RECORDS = (b"\x15\x03", b"\x16\x03")  # how alerts and handshakes begin; no frame of a link does
ABORT_SECONDS = 5.0  # a peer that does not read our farewell is cut off


class LinkTable(Protocol):
    """Receives the events of link connections, and holds their settings for sending."""

    @property
    def buffer(self) -> memoryview: ...

    def batching(self) -> LinkBatching: ...

    def opened(self, connection: "LinkConnection") -> None: ...

    def received(self, connection: "LinkConnection", size: int) -> None: ...

    def set_writable(self, connection: "LinkConnection", writable: bool) -> None: ...

    def lost(self, connection: "LinkConnection", reason: str, code: str = "") -> None: ...

    def met_tls(self, connection: "LinkConnection") -> None: ...

    def delay_ms(self, connection: "LinkConnection") -> float: ...


class LinkConnection(asyncio.BufferedProtocol):
    def __init__(self, links: LinkTable, name: str) -> None:
        self.links, self.name = links, name
        self.number = -1
        self.attempt: asyncio.Task[None] | None = None  # to dial, of which it came
        self.router = 0  # that it says to be, once the engine has asked whether that is true
        self.writable = True
        self.sent_bytes = self.received_bytes = 0
        self._held: deque[tuple[float, bytes]] = deque()  # when it may go, and what: an emulated delay
        self._link_batching = links.batching()
        self._gathered: list[bytes] = []
        self._gathered_bytes = 0
        self._wrote_at = 0.0  # seconds
        self._timer: asyncio.TimerHandle | None = None  # runs while something is gathered
        self._transport: asyncio.Transport | None = None
        self._socket: socket.socket | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=64 << 10)
        self._socket = own_socket(transport.get_extra_info("socket"))
        self.links.opened(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self.links.buffer

    def buffer_updated(self, size: int) -> None:
        if self.number >= 0:
            if not self.received_bytes and bytes(self.links.buffer[:2]) in TLS_RECORDS:
                self.links.met_tls(self)
                return
            self.links.received(self, size)
            if self._socket is not None and TCP_QUICKACK is not None:  # TCP forgets it with every put-off that failed
                self._socket.setsockopt(socket.IPPROTO_TCP, TCP_QUICKACK, 0)

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self.writable = False
        if self.number >= 0:
            self.links.set_writable(self, False)

    def resume_writing(self) -> None:
        self.writable = True
        if self.number >= 0:
            self.links.set_writable(self, True)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._socket is not None:
            self._socket.detach()
            self._socket = None
        self.links.lost(self, "the connection ended" if exc is None else str(exc), code_of(exc))

    def flushed(self, data: bytes, left: int) -> bool:
        """Output of the forwarder, and how many bytes stayed behind; returns whether it takes more at once."""
        if data:
            self.sent_bytes += len(data)
            self.write(data)
        return bool(left) and self.writable

    def address(self) -> str:
        """Of the peer's end."""
        assert self._transport is not None
        host, port = (self._transport.get_extra_info("peername") or ("?", "?"))[:2]
        return f"{host}:{port}"

    def certificate_name(self) -> str:
        """The common name of the peer's certificate; empty if it showed none."""
        assert self._transport is not None
        certificate = self._transport.get_extra_info("peercert") or {}
        return next(
            (value for part in certificate.get("subject", ()) for key, value in part if key == "commonName"), ""
        )

    def write(self, data: bytes) -> None:
        assert self._transport is not None
        delay_ms = self.links.delay_ms(self)
        loop = asyncio.get_running_loop()
        if not delay_ms and not self._held:
            self._gather(data, loop)
            return
        self._held.append((loop.time() + delay_ms / 1000, data))
        if len(self._held) == 1:
            loop.call_at(self._held[0][0], self._let_go)

    def _gather(self, data: bytes, loop: asyncio.AbstractEventLoop) -> None:
        self._gathered.append(data)
        self._gathered_bytes += len(data)
        due = self._wrote_at + self._link_batching.wait_ms / 1000
        if loop.time() >= due or data[TYPE] == CONTROL or self._gathered_bytes >= GATHER_BYTES:
            self._write_gathered(self._gathered_bytes)
        elif self._gathered_bytes >= SEGMENT_BYTES:
            self._write_gathered(self._gathered_bytes - self._gathered_bytes % SEGMENT_BYTES)
        if self._gathered and self._timer is None:
            self._timer = loop.call_later(max(TICK_SECONDS, due - loop.time()), self._due)

    def _due(self) -> None:
        """The wait of what was gathered is over, unless there was a write meanwhile."""
        self._timer = None
        if not self._gathered:
            return
        loop = asyncio.get_running_loop()
        left = self._wrote_at + self._link_batching.wait_ms / 1000 - loop.time()
        if left < TICK_SECONDS:
            self._write_gathered(self._gathered_bytes)
        else:
            self._timer = loop.call_later(left, self._due)

    def _write_gathered(self, size: int) -> None:
        """The first bytes of the gathered output, at most this number."""
        pieces, data = len(self._gathered), b"".join(self._gathered)
        self._gathered = [data[size:]] if size < len(data) else []
        self._gathered_bytes = len(data) - size
        if size and self._transport is not None and not self._transport.is_closing():
            self._wrote_at = asyncio.get_running_loop().time()
            self._link_batching.wrote(self._wrote_at * 1000, pieces, size)
            self._put(data[:size])

    def _put(self, data: bytes) -> None:
        assert self._transport is not None
        try:
            self._transport.write(data)
        except RuntimeError as error:  # the event loop has closed it without a word: others' output must not suffer
            self._transport.abort()
            asyncio.get_running_loop().call_soon(self.connection_lost, error)

    def _let_go(self) -> None:
        """Send what was held back long enough, in order."""
        assert self._transport is not None
        loop = asyncio.get_running_loop()
        while self._held and self._held[0][0] <= loop.time():
            _, data = self._held.popleft()
            if not self._transport.is_closing():
                self._put(data)
        if self._held:
            loop.call_at(self._held[0][0], self._let_go)

    def close(self) -> None:
        """Close once what was written is sent, or after a while."""
        assert self._transport is not None
        self._write_gathered(self._gathered_bytes)
        while self._held:
            self._put(self._held.popleft()[1])
        self._transport.close()
        asyncio.get_running_loop().call_later(ABORT_SECONDS, self._transport.abort)

    def give_up(self) -> None:
        """Nobody waits for it any more. If the attempt to dial is given up while its connection is made, uvloop closes
        that, and never says so."""
        if self._socket is not None:
            self._socket.detach()  # its number may soon be another's
            self._socket = None
        if self._transport is not None:
            self._transport.abort()

    def abort(self) -> None:
        assert self._transport is not None
        self._transport.abort()


def code_of(error: Exception | None) -> str:
    """The code under which an error that ended a connection is reported."""
    return TLS if isinstance(error, ssl.SSLError) else ""
