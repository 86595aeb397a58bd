"""A client's socket whose protocol is translated: its bytes become native frames, and those of the forwarder its bytes.

socket ─► gateway.receive ─► native frames ─► forwarder ─► events, node
socket ◄─ gateway output ◄── native frames ◄─ forwarder
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from tidings.broker.connections.connection import ClientConnection, ConnectionServices
from tidings.broker.connections.gateway_turns import GatewayInput, GatewayTurns
from tidings.broker.tuning.read_moderation import SMALL_READ_BYTES
from tidings.errors import RemoteProtocolError, TidingsError
from tidings.kernel.clock import now_ms
from tidings.kernel.forwarder import Flag
from tidings.node.limits import BrokerLimits
from tidings.node.protocol_session import ProtocolSession
from tidings.protocols.session import Caller, Gateway

log = logging.getLogger("tidings.broker")

WAITING_BYTES_MAX = 8 << 20  # held by the gateway before the forwarder keeps the rest to itself


@dataclass(frozen=True, slots=True)
class GatewayServices:
    """The parts of the broker that a translated connection uses in addition."""

    gateways: set["GatewayConnection"]  # those that have timers
    limits: Callable[[], BrokerLimits]
    open: Callable[[], bool]  # no users are configured
    permits: Callable[[int, str, str], bool]  # connection, operation, destination
    fail: Callable[[int, TidingsError], None]  # say why, and close
    turns: GatewayTurns


class GatewayConnection(ClientConnection):
    def __init__(
        self,
        services: ConnectionServices,
        session: ProtocolSession,
        gateway_services: GatewayServices,
        make_gateway: Callable[[Caller], Gateway],
    ) -> None:
        super().__init__(services, session)
        self._broker, self._make_gateway = gateway_services, make_gateway
        self._gateway: Gateway | None = None
        self._clogged = False  # the socket takes nothing now
        self._full = False  # the gateway holds enough
        self._pumping = False
        self._known = False  # its first bytes were looked at
        self._input = GatewayInput()
        self._behind = False  # not read until what was read is taken

    def _permits(self, operation: str, destination: str) -> bool:
        """True if the user of this connection may carry out the operation there."""
        return self._broker.permits(self.number, operation, destination)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        limits = self._broker.limits()
        caller = Caller(
            self.certificate_name(),
            self._broker.open(),
            limits.frame_bytes_max,
            self._permits,
            self._wake,
            limits.heartbeat_ms,
        )
        self._gateway = self._make_gateway(caller)
        self._broker.gateways.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._broker.gateways.discard(self)
        if self._gateway is not None:
            if rest := self._input.take_rest():
                self._receive(rest)
            self._gateway.lost()
            if self.number >= 0 and (last := self._gateway.take_frames()) and not self.closing:
                flags = self.services.forwarder.feed_bytes(self.number, last, now_ms())
                self.services.table.react(self, flags, flush=True)
        super().connection_lost(exc)

    def buffer_updated(self, size: int) -> None:
        if not self._known:
            self._known = True
            if self.speaks_foreign(self.services.forwarder.buffer[:size]):
                return
        self.heard_ms = now_ms()
        if self.closing:
            return
        waits = bool(self._input)
        self._input.add(bytes(self.services.forwarder.buffer[:size]))
        if not waits:
            self._broker.turns.arrived(self)
            if self._input:
                self._behind = True
                self.pause_reading()

    def take_slice(self) -> bool:
        for piece in self._input.slice():
            self._receive(piece)
        self._pump()
        if self.closing:
            self._input.take_rest()
        if self._input:
            return True
        if self._behind and self.number >= 0:
            self._behind = False
            self.services.table.react(self, int(Flag.BLOCKED), flush=False)  # reads again, if nothing else forbids it
        return False

    def _receive(self, data: bytes) -> None:
        if not self.closing:
            self._do(lambda gateway: gateway.receive(data, self.heard_ms))

    def resume_reading(self) -> None:
        if not self._input:
            super().resume_reading()

    def write(self, data: bytes) -> None:
        """Pass frames of the forwarder to the gateway; its own answers to them are sent in a later turn."""
        self._do(lambda gateway: gateway.frames(data, now_ms()), heard=False)
        self._put_out()
        self._wake()

    def _wake(self) -> None:
        """Take what the gateway has for broker and client in the next turn."""
        if not self._pumping:
            self._pumping = True
            asyncio.get_running_loop().call_soon(self._pump)

    def tick(self, now: int) -> None:
        if not self.closing:
            self._do(lambda gateway: gateway.tick(now))
            self._pump()

    def pause_writing(self) -> None:
        self._clogged = True
        super().pause_writing()

    def resume_writing(self) -> None:
        self._clogged = False
        if not self._full:
            super().resume_writing()

    def _do(self, work: Callable[[Gateway], None], *, heard: bool = True) -> None:
        """`heard`: the work is input of the client, and frames before an error count; otherwise the forwarder is active
        and must not be fed."""
        if self._gateway is None or self.number < 0:
            return
        error: TidingsError | None = None
        try:
            work(self._gateway)
        except TidingsError as failure:
            error = failure
        except Exception:  # a bug must cost one connection, not all of them
            log.exception("internal error while serving %s", self.address)
            error = RemoteProtocolError("E_INTERNAL", "an error inside the broker")
        if error is not None and not self.closing:
            if heard:
                self._pump()
            else:
                self._put_out()
            if not self.closing:
                self._broker.fail(self.number, error)

    def _pump(self) -> None:
        """Pass on the gateway's output to the client and its frames to the forwarder."""
        self._pumping = False
        if self._gateway is None or self.number < 0:
            return
        self._put_out()
        frames = self._gateway.take_frames()
        if frames and not self.closing:
            flags = self.services.forwarder.feed_bytes(self.number, frames, now_ms())
            self.services.table.react(self, flags, flush=len(frames) < SMALL_READ_BYTES)

    def _put_out(self) -> None:
        assert self._gateway is not None
        if output := self._gateway.take_output():
            super().write(output)
        full = self._gateway.waiting_bytes > WAITING_BYTES_MAX
        if full and not self._full:
            super().pause_writing()
        elif self._full and not full and not self._clogged:
            super().resume_writing()
        self._full = full
