"""The socket of a link to another broker: bytes go to the forwarder, its output comes back."""

import asyncio
from typing import TYPE_CHECKING, cast

from tidings.broker.link_secret import Handshake

if TYPE_CHECKING:
    from tidings.broker.links import BrokerLinks

ABORT_SECONDS = 5.0  # a peer that does not read our farewell is cut off


class LinkConnection(asyncio.BufferedProtocol):
    def __init__(self, links: "BrokerLinks", name: str, handshake: Handshake | None) -> None:
        self.links, self.name, self.handshake = links, name, handshake
        self.number = -1
        self.their_challenge = b""
        self.proven: bool | None = None  # by the secret; None: not yet
        self.asked = 0  # the router it says to be, once the machine has asked whether that is true
        self.writable = True
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=64 << 10)
        self.links.opened(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self.links.buffer

    def buffer_updated(self, size: int) -> None:
        if self.number >= 0:
            self.links.received(self, size)

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
        self.links.lost(self, "the connection ended" if exc is None else str(exc))

    def certificate_name(self) -> str:
        """The common name of the peer's certificate; empty if it showed none."""
        assert self._transport is not None
        certificate = self._transport.get_extra_info("peercert") or {}
        return next(
            (value for part in certificate.get("subject", ()) for key, value in part if key == "commonName"), ""
        )

    def write(self, data: bytes) -> None:
        assert self._transport is not None
        self._transport.write(data)

    def close(self) -> None:
        """Close once what was written is sent, or after a while."""
        assert self._transport is not None
        self._transport.close()
        asyncio.get_running_loop().call_later(ABORT_SECONDS, self._transport.abort)

    def abort(self) -> None:
        assert self._transport is not None
        self._transport.abort()
