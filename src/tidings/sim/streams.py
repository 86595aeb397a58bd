"""Connections over the physical network: streams that keep order and lose nothing until they end, like TCP's.

A packet that the network loses is sent again after a while, for as long as both ends stay; the receiving end puts
packets in order. So a short cut delays, a long one is for the link's heartbeats to judge, and an end whose process died
answers with a reset as soon as something reaches its host.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from tidings.overlay.topology.graph import Node
from tidings.sim.network import PhysicalNetwork

RETRY_MS = 200.0
RETRIES_MAX = 50  # of an end that is closed already and only wants to say so
HEADER_BYTES = 40

Kind: TypeAlias = Literal["answer", "data", "end"]


@dataclass(slots=True, eq=False)
class End:
    """One end of a stream; `owner` is whatever the user of streams needs to find its process again."""

    host: Node
    name: str
    owner: object
    peer: "End | None" = None
    open: bool = True  # may still receive
    refused: bool = False  # nobody listened where it was to lead
    sent: int = 0
    expected: int = 0
    early: dict[int, tuple[Kind, bytes]] = field(default_factory=dict)


class Streams:
    """`connected(end)`, `received(end, data)` and `lost(end, reason)` are called as it happens."""

    def __init__(
        self,
        network: PhysicalNetwork,
        connected: Callable[[End], None],
        received: Callable[[End, bytes], None],
        lost: Callable[[End, str], None],
    ) -> None:
        self.network = network
        self._connected, self._received, self._lost = connected, received, lost

    def dial(self, end: End, host: Node, accept: Callable[[], End | None]) -> None:
        """Open a stream to a host; `accept` makes the other end there, or None: nobody listens."""

        def refuse() -> None:
            end.refused = True
            self._end(end, "refused")

        def arrive() -> None:
            peer = accept()
            if peer is None:
                self.network.send(host, end.host, HEADER_BYTES, refuse)
                return
            end.peer, peer.peer = peer, end
            self._send(peer, "answer", b"")
            self._connected(peer)

        self._dial(end, host, arrive)

    def _dial(self, end: End, host: Node, arrive: Callable[[], None]) -> None:
        def again() -> None:
            if end.open:
                self._dial(end, host, arrive)

        def lost() -> None:
            self.network.calendar.after(RETRY_MS, again)

        self.network.send(end.host, host, HEADER_BYTES, arrive, lost)

    def send(self, end: End, data: bytes) -> None:
        self._send(end, "data", data)

    def close(self, end: End, reason: str) -> None:
        """This end hears nothing more; the other hears of it after what was sent before."""
        if end.open:
            end.open = False
            if end.peer is not None:
                self._send(end, "end", reason.encode())

    def abandon(self, end: End) -> None:
        """The process died: no farewell but the reset that its host sends for it, if it can."""
        end.open = False
        self._reset(end)

    def _send(self, end: End, kind: Kind, data: bytes) -> None:
        number = end.sent
        end.sent += 1
        self._try(end, number, kind, data, 0)

    def _try(self, end: End, number: int, kind: Kind, data: bytes, tries: int) -> None:
        peer = end.peer
        assert peer is not None, "a stream carries nothing before it is connected"

        def again() -> None:
            wanted = end.open or (kind == "end" and tries < RETRIES_MAX)
            if wanted and peer.open:
                self._try(end, number, kind, data, tries + 1)

        def lost() -> None:
            self.network.calendar.after(RETRY_MS, again)

        size = HEADER_BYTES + len(data)
        self.network.send(end.host, peer.host, size, lambda: self._arrive(peer, number, kind, data), lost)

    def _arrive(self, end: End, number: int, kind: Kind, data: bytes) -> None:
        if not end.open:
            self._reset(end)
            return
        end.early[number] = (kind, data)
        while end.open and end.expected in end.early:
            kind, data = end.early.pop(end.expected)
            end.expected += 1
            if kind == "data":
                self._received(end, data)
            elif kind == "answer":
                self._connected(end)
            else:
                self._end(end, data.decode())

    def _reset(self, end: End) -> None:
        peer = end.peer
        if peer is not None and peer.open:
            self.network.send(end.host, peer.host, HEADER_BYTES, lambda: self._end(peer, "reset"))

    def _end(self, end: End, reason: str) -> None:
        if end.open:
            end.open = False
            self._lost(end, reason)
