"""Interfaces between a socket and a session: framing layers such as WebSocket, and gateways that translate another
protocol into native frames. The interface of sessions is the engine's: `node.protocol_session`."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol


class Layer(Protocol):
    """Frames around a protocol, such as WebSocket's: removed from input, added to output."""

    ended: bool
    message_bytes_max: int

    def receive(self, data: bytes) -> bytes:
        """The unframed input; call `to_send` afterwards."""

    def to_send(self) -> bytes: ...

    def wrap(self, data: bytes) -> bytes: ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Caller:
    """The broker's knowledge of a client before its first byte."""

    certificate: str  # the name in it; empty: none presented
    open: bool  # no login required
    frame_bytes_max: int
    permits: Callable[[str, str], bool]  # access check, once logged in: operation, destination
    wake: Callable[[], None] = lambda: None  # have frames and output taken that no call of the gateway has made
    heartbeat_ms: int = 30_000  # the longest silence that the broker offers


class Gateway(Protocol):
    """One connection's side of a protocol that is translated into native frames, without I/O."""

    def receive(self, data: bytes, now_ms: int) -> None:
        """Bytes from the client. A TidingsError ends the connection, once what `take_output` has is sent."""

    def frames(self, data: bytes, now_ms: int) -> None:
        """Native frames from the broker."""

    def tick(self, now_ms: int) -> None:
        """Every quarter of a second."""

    def lost(self) -> None:
        """The connection is closed: release what is held for it."""

    def take_frames(self) -> bytes:
        """For the broker."""

    def take_output(self) -> bytes:
        """For the client."""

    @property
    def waiting_bytes(self) -> int:
        """Bytes held because the client does not take them yet."""
