"""Interfaces of what stands between a socket and a session: framing layers such as WebSocket, and gateways that
translate another protocol into native frames. The interface of sessions is the engine's: `node.protocol_session`."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol


class Layer(Protocol):
    """Frames around a protocol, such as WebSocket's: off what comes, on what goes."""

    ended: bool
    message_bytes_max: int

    def receive(self, data: bytes) -> bytes:
        """What is inside; take `to_send` afterwards."""

    def to_send(self) -> bytes: ...

    def wrap(self, data: bytes) -> bytes: ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Caller:
    """What the broker knows of a client before it says a word."""

    certificate: str  # the name in it; empty: it showed none
    open: bool  # nobody has to log in here
    frame_bytes_max: int
    permits: Callable[[str, str], bool]  # may it, once logged in, do this operation at this destination?


class Gateway(Protocol):
    """One connection's side of a protocol that is translated into native frames, without I/O."""

    def receive(self, data: bytes, now_ms: int) -> None:
        """Bytes from the client. A TidingsError ends the connection, once what `take_output` has is sent."""

    def frames(self, data: bytes, now_ms: int) -> None:
        """Native frames from the broker."""

    def tick(self, now_ms: int) -> None:
        """Every quarter of a second."""

    def lost(self) -> None:
        """The connection is gone: let go of what is held for it."""

    def take_frames(self) -> bytes:
        """For the broker."""

    def take_output(self) -> bytes:
        """For the client."""

    @property
    def waiting_bytes(self) -> int:
        """What is held because the client does not want it yet."""
