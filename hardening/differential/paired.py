"""A simulated broker and a real one on sockets behind one interface, so that one test can ask the same of both.

Both are driven step by step: bytes go to a connection, then `settle` waits until the broker has read and written all
and says nothing more. Time is the test's: the clock of neither ticks unless told to (`tick`), and the disk answers when
all that was sent has been read, reads before writes. So there is no race between clients and disk, and what both
answer can be compared frame by frame.
"""

from typing import Protocol

from tidings.model.codec import encode_frame
from tidings.node.view import View
from tidings.protocols.native.frames import FrameSplitter, FrameType, RawFrame

FRAME_BYTES_MAX = 64 << 20
PING = encode_frame(FrameType.PING, b"")


class PairedBroker(Protocol):
    """A broker as a test sees it: connections by number, frames as they come."""

    @property
    def view(self) -> View: ...

    def open(self) -> int:
        """Returns the number of a new connection, on which nothing was sent yet."""

    def send(self, connection: int, data: bytes) -> None: ...

    def settle(self) -> None:
        """Return when all that was sent is dealt with, on disk where it must be, and the answers are here."""

    def frames(self, connection: int) -> list[RawFrame]:
        """Received since the last call, pings and their answers left out."""

    def is_open(self, connection: int) -> bool:
        """True while the broker has not closed it."""

    def disconnect(self, connection: int) -> None: ...

    def tick(self) -> None: ...

    def restart(self) -> None:
        """End the broker's process, which has no connections now, and begin another on the same disk."""

    def stop(self) -> None: ...


class FrameLog:
    """Frames of one connection."""

    def __init__(self) -> None:
        self.welcome = False  # the client has logged in
        self.pongs = 0
        self.total = 0
        self._fresh: list[RawFrame] = []
        self._splitter = FrameSplitter(FRAME_BYTES_MAX)

    def receive(self, data: bytes) -> None:
        for frame in self._splitter.feed(data):
            self.total += 1
            self.welcome |= frame.type == FrameType.WELCOME
            if frame.type == FrameType.PONG:
                self.pongs += 1
            elif frame.type != FrameType.PING:
                self._fresh.append(frame)

    def take(self) -> list[RawFrame]:
        fresh, self._fresh = self._fresh, []
        return fresh
