"""AMQP's frames (specification, part 2.3): eight bytes, an extended header, and a body.

>>> FrameReader(512).feed(frame(b"body", 3))
[AmqpFrame(kind=0, channel=3, body=b'body')]
"""

import struct
from typing import NamedTuple

from tidings.errors import RemoteProtocolError

HEADER_BYTES = 8
MIN_MAX_FRAME_SIZE = 512
AMQP_FRAME, SASL_FRAME = 0, 1
_HEADER = struct.Struct(">IBBH")


class AmqpFrame(NamedTuple):
    kind: int
    channel: int
    body: bytes


def frame(body: bytes, channel: int = 0, kind: int = AMQP_FRAME) -> bytes:
    return _HEADER.pack(HEADER_BYTES + len(body), 2, kind, channel) + body


class FrameReader:
    """Collects bytes until they are whole frames of at most `frame_bytes_max`."""

    def __init__(self, frame_bytes_max: int) -> None:
        self._frame_bytes_max = frame_bytes_max
        self._rest = b""
        self._at = 0

    def feed(self, data: bytes) -> list[AmqpFrame]:
        self.append(data)
        found = []
        while (one := self.next()) is not None:
            found.append(one)
        return found

    def append(self, data: bytes) -> None:
        self._rest = self._rest[self._at :] + data if self._at < len(self._rest) else data
        self._at = 0

    def next(self) -> AmqpFrame | None:
        """The next whole frame. An error is a frame that breaks the rules."""
        at, rest = self._at, self._rest
        if len(rest) - at < HEADER_BYTES:
            return None
        size, offset, kind, channel = _HEADER.unpack_from(rest, at)
        if size < HEADER_BYTES or offset < 2 or offset * 4 > size:
            raise RemoteProtocolError("E_AMQP_FRAMING", "frame size and data offset do not fit together")
        if size > self._frame_bytes_max:
            reason = f"a frame of {size} bytes; the limit is {self._frame_bytes_max}"
            raise RemoteProtocolError("E_AMQP_FRAMING", reason)
        if len(rest) - at < size:
            return None
        self._at = at + size
        return AmqpFrame(kind, channel, rest[at + 4 * offset : at + size])

    def pending(self) -> tuple[bytes, int]:
        """Bytes, and from where on they have not been read as frames."""
        return self._rest, self._at

    def skip(self, size: int) -> None:
        """Bytes of `pending` that were read by others."""
        self._at += size
