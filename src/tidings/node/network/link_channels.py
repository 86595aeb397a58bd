"""Links as connections of the forwarding plane, by which control messages go, between the messages of the plane."""

from typing import cast

from tidings.model.codec import encode_frame
from tidings.node.plane import NetworkPlane
from tidings.overlay.effects import ControlMessage, Router
from tidings.overlay.link.greeting import Refuse
from tidings.routing.control.codec import encode
from tidings.routing.control.messages import Control

CONTROL_FRAME = 0x40


class LinkClock:
    """The time of the links, in milliseconds: it never goes back, as the wall clock may, by which messages expire."""

    def __init__(self) -> None:
        self.now = 0.0

    def at(self, now: float) -> float:
        """It is so late. A driver tells it before each turn of the node."""
        self.now = max(self.now, now)
        return self.now


class LinkChannels:
    def __init__(self, plane: NetworkPlane) -> None:
        self.peers: dict[Router, int] = {}  # linked: the plane's number of the link
        self.names: dict[int, str] = {}  # the plane's number -> the connection that has it
        self._numbers: dict[str, int] = {}
        self._held: dict[str, list[bytes]] = {}  # frames for peers that must prove themselves first
        self._plane = plane

    def opened(self, connection: str, number: int, *, proven: bool) -> None:
        """The plane has this connection under that number. Before its peer is proven it hears nothing but refusals."""
        self._numbers[connection], self.names[number] = number, connection
        if not proven:
            self._held[connection] = []

    def proven(self, connection: str) -> None:
        """The peer may hear what was held back."""
        for frame in self._held.pop(connection, ()):
            self._plane.send(self._numbers[connection], frame)

    def closed(self, connection: str) -> int | None:
        """The connection is gone; returns the number it had."""
        self._held.pop(connection, None)
        number = self._numbers.pop(connection, None)
        if number is not None:
            del self.names[number]
        return number

    def link(self, peer: Router, connection: str) -> None:
        number = self._numbers[connection]
        self._plane.link(number, peer)
        self.peers[peer] = number

    def unlink(self, peer: Router) -> None:
        del self.peers[peer]
        self._plane.unlink(peer)

    def peer_at(self, number: int) -> Router:
        """The neighbour linked by the plane's connection of this number; 0: none."""
        return next((router for router, at in self.peers.items() if at == number), 0)

    def say(self, neighbour: Router, message: ControlMessage) -> bool:
        """Send it to this neighbour; False if there is no link to it."""
        number = self.peers.get(neighbour)
        if number is None:
            return False
        self._plane.send(number, control_frame(message))
        return True

    def transmit(self, connection: str, message: ControlMessage) -> None:
        """By a connection that need not be a link yet."""
        number = self._numbers.get(connection)
        if number is None:
            return
        if connection in self._held and not isinstance(message, Refuse):
            self._held[connection].append(control_frame(message))
        else:
            self._plane.send(number, control_frame(message))


def control_frame(message: ControlMessage) -> bytes:
    return encode_frame(CONTROL_FRAME, encode(cast("Control", message)))
