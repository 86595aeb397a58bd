"""A client of a simulated broker that speaks STOMP 1.2."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidings.protocols.stomp.frames import StompFrame, StompVersion, decode, encode
from tidings.sim.client import SimClient


@dataclass(slots=True, eq=False)
class StompClient(SimClient):
    """Keeps frames as they came; receipts must be numbers."""

    frames: list[StompFrame] = field(default_factory=list)
    _rest: bytes = b""

    def receive(self, data: bytes, now: float) -> None:
        self._rest += data
        while self._rest:
            self._rest = self._rest.lstrip(b"\n")
            end = _end_of_frame(self._rest)
            if end < 0:
                return
            frame, self._rest = decode(self._rest[:end], StompVersion.V12), self._rest[end + 1 :]
            self.frames.append(frame)
            if frame.command == "RECEIPT":
                self._accepted([int(frame.headers["receipt-id"])])
            elif frame.command == "ERROR":
                self.ended = frame.headers.get("message", "error")


def stomp_frame(command: str, headers: Mapping[str, str], body: bytes = b"") -> bytes:
    return encode(command, headers, StompVersion.V12, body)


def _end_of_frame(data: bytes) -> int:
    """The position of the zero byte that ends the first frame; -1: it has not arrived yet."""
    head = data.find(b"\n\n")
    if head < 0:
        return -1
    for line in data[:head].split(b"\n"):
        if line.startswith(b"content-length:"):
            end = head + 2 + int(line.partition(b":")[2])
            return end if end < len(data) else -1
    return data.find(b"\0", head)
