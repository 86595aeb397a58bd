"""One client's socket: bytes go to the forwarder, its output comes back. Nothing here looks at a message."""

import asyncio
import logging
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, TypeVarTuple, cast

from tidings.broker.connections.foreign_protocol import HEAD_BYTES, answer, explanation, foreign
from tidings.broker.connections.output_flush import OutputFlush
from tidings.broker.tuning.quick_ack import HELD_UP_MS, PUT_OFF, QuickAck
from tidings.broker.tuning.read_moderation import ReadModeration
from tidings.broker.tuning.receive_windows import bound_window
from tidings.kernel.client_input import open_client_input
from tidings.kernel.clock import now_ms
from tidings.kernel.forwarder import Flag, Forwarder
from tidings.node.limits import BrokerLimits
from tidings.node.protocol_session import ProtocolSession

TCP_QUICKACK = getattr(socket, "TCP_QUICKACK", None)  # Linux has it
OUTPUT, WRITE = int(Flag.OUTPUT), int(Flag.OUTPUT | Flag.LEFT)

BEAT_EARLY_MS = 500
GRACE_MS = 1_000
# Not every client sends heartbeats. One whose host is gone is noticed by TCP after two minutes: a minute of silence,
# then four questions without an answer. Linux has these three; elsewhere the system's own times apply.
KEEP_ALIVE = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 15, "TCP_KEEPCNT": 4}
CLOSING_MS = 5_000  # a client that does not read its last frames is disconnected after this time


log = logging.getLogger("tidings.broker")
Ts = TypeVarTuple("Ts")


class ConnectionTable(Protocol):
    """Receives the events of connections."""

    def opened(self, connection: "ClientConnection") -> None: ...

    def lost(self, connection: "ClientConnection") -> None: ...

    def react(self, connection: "ClientConnection", flags: int, *, flush: bool) -> None: ...

    def foreign(self, connection: "ClientConnection", why: str) -> None: ...


@dataclass(frozen=True, slots=True)
class ConnectionServices:
    """The parts of the broker that a connection uses."""

    forwarder: Forwarder
    table: ConnectionTable
    flushing: OutputFlush
    read_moderation: ReadModeration
    layer_buffer: memoryview  # for bytes that are not the forwarder's yet
    delayed_acknowledgements: bool = True


class Silence(Enum):
    NONE = 0
    NO_LOGIN = 1
    LONG = 2  # ask whether it is there
    TOO_LONG = 3


class ClientConnection(asyncio.BufferedProtocol):
    """Reads into the forwarder's one buffer, which is free again when `buffer_updated` returns."""

    def __init__(self, services: ConnectionServices, session: ProtocolSession) -> None:
        self.services = services
        self.session = session
        self.protocol = session.name
        self.expects = ""  # the protocol that its bytes are in; empty: any
        self.number = -1
        self.user = ""
        self.logged_in = False
        self.opened_ms = now_ms()
        self.heartbeat_ms = 0
        self.beat_ms = 0  # interval of heartbeats that the client asked for; 0: none
        self._pinged_ms = 0
        self.address = ""
        self.closing = False  # once its output is written
        self.closing_ms = 0
        self._lingers = False
        self._finished = False  # nothing more is written
        self.writable = True
        self._paused = False
        self._transport: asyncio.Transport | None = None
        self._socket: socket.socket | None = None
        self._quick_ack = QuickAck(adaptive=services.delayed_acknowledgements)
        self._direct: socket.socket | None = None  # without TLS: what is written may go straight to the socket
        self._kernel_writes = type(self).write is ClientConnection.write  # what the forwarder has needs no translation
        self._output_bytes = services.forwarder.output_bytes
        self._client_input = open_client_input(services.forwarder, services.read_moderation.pace, self._after_read)
        if type(self).get_buffer is ClientConnection.get_buffer:  # then the event loop need not go by Python
            self.get_buffer = self._client_input.buffer  # type: ignore[method-assign]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        # Not 0: with TLS, uvloop takes an empty buffer for a full one then, and says "pause" without a "resume".
        self._transport.set_write_buffer_limits(high=1, low=0)
        self._socket = own_socket(transport.get_extra_info("socket"))
        if self._socket is not None:
            keep_alive(self._socket)
        self._direct = None if transport.get_extra_info("ssl_object") else self._socket
        peer = transport.get_extra_info("peername")
        self.address = peer[0] if peer else "local"
        self.services.table.opened(self)
        self._client_input.number = self.number
        if self._direct is not None:
            self._client_input.watch_arrivals(self._direct.fileno())
        if self._direct is not None and self._kernel_writes and not self.closing:
            self.services.forwarder.set_socket(self.number, self._direct.fileno())

    def get_buffer(self, sizehint: int) -> memoryview:
        return self.services.forwarder.buffer

    def buffer_updated(self, size: int) -> None:
        """The first read; all others go by no Python."""
        if self.speaks_foreign(self.services.forwarder.buffer[:size]):
            return
        self.buffer_updated = self._client_input.take  # type: ignore[method-assign]
        assert self._transport is not None
        self._transport.set_protocol(self)  # event loops remember what they call
        self.take(size)

    def take(self, size: int) -> None:
        """Bytes that were read into the forwarder's buffer."""
        self._client_input.take(size)

    def speaks_foreign(self, data: memoryview) -> bool:
        """True, and the connection ends, if the client speaks another protocol than its port."""
        head = bytes(data[:HEAD_BYTES])
        if not (spoken := foreign(self.expects, head)):
            return False
        why = explanation(self.expects, spoken)
        self.services.table.foreign(self, why)
        ClientConnection.write(self, answer(spoken, why, head))
        self.closing, self.closing_ms = True, now_ms()
        if self._transport is not None:
            self._transport.close()
        return True

    @property
    def heard_ms(self) -> int:
        """Time of the last byte from the client."""
        return self._client_input.heard_ms

    @heard_ms.setter
    def heard_ms(self, ms: int) -> None:
        self._client_input.heard_ms = ms

    def _after_read(self, flags: int, small: bool, pause_ms: int) -> None:
        """Follow up a read. After a small one there is time: its output need not share a write with others'."""
        services = self.services
        if self._client_input.watched or pause_ms >= HELD_UP_MS:
            if (setting := self._quick_ack.setting(pause_ms)) is not None:
                self._acknowledge(setting)
            self._client_input.watched = self._quick_ack.left > 0
        if flags in (OUTPUT, WRITE):  # plain messages
            if not small:
                services.flushing.soon()
                return
            if flags == WRITE:
                services.flushing.now()
            services.read_moderation.after_small_read(self.number)
        elif flags:
            services.table.react(self, flags, flush=small)

    def _acknowledge(self, setting: int) -> None:
        """At once, unless there is an answer to carry it; or later, from now on."""
        useful = setting == PUT_OFF or not self._output_bytes(self.number)
        if useful and TCP_QUICKACK is not None and self._socket is not None:
            self._socket.setsockopt(socket.IPPROTO_TCP, TCP_QUICKACK, setting)

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self.writable = False
        if self.number >= 0:
            self.services.forwarder.set_writable(self.number, False)

    def resume_writing(self) -> None:
        self.writable = True
        self.heard_ms = now_ms()  # it has taken something: a sign of life
        if self.number >= 0:
            self.services.forwarder.set_writable(self.number, True)
            self.services.flushing.soon()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._socket is not None:
            self._socket.detach()
            self._direct = None
            self._socket = None
        self.services.table.lost(self)
        self._client_input.close()  # or we would wait for the garbage collector, which comes seldom

    def certificate_name(self) -> str:
        """The common name of the client's certificate; empty if it showed none."""
        assert self._transport is not None
        certificate = self._transport.get_extra_info("peercert") or {}
        return next(
            (value for part in certificate.get("subject", ()) for key, value in part if key == "commonName"), ""
        )

    def write(self, data: bytes) -> None:
        assert self._transport is not None
        if self._finished:
            return
        if self._direct is not None and self.writable:  # nothing of ours is queued: no need to go by the event loop
            try:
                sent = self._direct.send(data)
            except (BlockingIOError, InterruptedError):
                sent = 0
            except OSError:  # it is gone; the transport will notice, and tell
                return
            if sent == len(data):
                return
            data = data[sent:]
        try:
            self._transport.write(data)
        except RuntimeError:  # the event loop has closed it without a word: others' output must not suffer
            self._transport.abort()
            asyncio.get_running_loop().call_soon(self.services.table.lost, self)

    def flushed(self, data: bytes, left: int) -> bool:
        """Output of the forwarder, and how many bytes stayed behind; returns whether it takes more at once."""
        if data:
            self.write(data)
        if left:
            return self.writable
        if self.closing:
            self.close()
        return False

    def alone(self, work: Callable[[*Ts], None], *arguments: *Ts) -> None:
        """Work for this connection: a bug in it must cost one connection, not all of them."""
        try:
            work(*arguments)
        except Exception:
            log.exception("internal error while serving %s", self.address)
            self.abort()

    def pause_reading(self) -> None:
        if self._lingers or self._paused or self._transport is None:
            return
        if not self._transport.is_closing():
            self._paused = True
            self._client_input.skip_sample()
            self._transport.pause_reading()

    def bound_window(self, window: int | None) -> None:
        """The bytes that may wait unread in its socket; None: as many as the system allows."""
        if self._socket is not None:
            bound_window(self._socket, window)

    @property
    def reading_paused(self) -> bool:
        """True if the broker reads nothing from it, while it takes output."""
        return self._paused and self.writable

    def resume_reading(self) -> None:
        if (
            self._paused
            and (not self.closing or self._lingers)
            and self._transport is not None
            and not self._transport.is_closing()
        ):
            self._paused = False
            self._transport.resume_reading()

    def silence(self, now: int, limits: BrokerLimits) -> Silence:
        """Judges how long the client has been silent."""
        if self.closing:
            return Silence.TOO_LONG if now - self.closing_ms > CLOSING_MS else Silence.NONE
        if not self.logged_in:
            late = now - self.opened_ms > limits.login_seconds * 1000
            return Silence.NO_LOGIN if late else Silence.NONE
        if self.reading_paused:
            self.heard_ms = now  # the broker does not read
        silent_ms = now - self.heard_ms
        if not self.heartbeat_ms or silent_ms <= self.heartbeat_ms:
            return Silence.NONE
        # A second of grace: the client's host and this one have other work too.
        too_long = silent_ms > max(2 * self.heartbeat_ms, self.heartbeat_ms + GRACE_MS)
        return Silence.TOO_LONG if too_long else Silence.LONG

    def beat_due(self, now: int) -> bool:
        """True if a heartbeat is due; to be called more often than heartbeats are asked for."""
        silent_ms = now - self.services.forwarder.written_ms(self.number)
        return self.writable and not self.closing and silent_ms >= self.beat_ms - BEAT_EARLY_MS and self.ping_due(now)

    def ping_due(self, now: int) -> bool:
        """False just after another one: some clients of STOMP take several line ends at once for the beginning of a
        frame, and hear no heartbeat any more."""
        if now - self._pinged_ms < BEAT_EARLY_MS:
            return False
        self._pinged_ms = now
        return True

    def begin_closing(self, *, linger: bool) -> None:
        self.closing = True
        self.closing_ms = now_ms()
        self.services.forwarder.set_socket(self.number, -1)  # the writes before closing are to be seen here
        if linger:
            self._lingers = self._transport is not None and self._transport.can_write_eof()
        if self._lingers:
            self.resume_reading()
        else:
            self.pause_reading()

    def close(self) -> None:
        """Close once the output is sent; a lingering connection closes when the client has read it, or by timeout."""
        if self._transport is None or self._transport.is_closing() or self._finished:
            return
        self._finished = True
        if self._lingers:
            try:
                self._transport.write_eof()
            except OSError:  # it has gone meanwhile
                self._transport.abort()
        else:
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()


def own_socket(stand_in: socket.socket | None) -> socket.socket | None:
    """The transport's socket as a real one: uvloop's stand-in makes a new one, with system calls, for each call.

    To be detached when the connection is lost: it is the transport's to close.
    """
    if stand_in is None or stand_in.family not in (socket.AF_INET, socket.AF_INET6):
        return None
    return socket.socket(stand_in.family, stand_in.type, stand_in.proto, stand_in.fileno())


def keep_alive(plain: socket.socket) -> None:
    with suppress(OSError):  # some systems do not take it if the client has hung up already
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in KEEP_ALIVE.items():
            if (option := getattr(socket, name, None)) is not None:
                plain.setsockopt(socket.IPPROTO_TCP, option, value)
