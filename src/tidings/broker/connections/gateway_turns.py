"""Input of connections whose protocol is translated, taken in small pieces: what one client pours in at once would
otherwise hold up all others for as long as its translation takes.

A connection's input is taken at once, for at most SLICE_SECONDS, unless others wait already. What is left joins the
line, of which each turn of the event loop serves as much as TURN_SECONDS allow.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Protocol

SLICE_SECONDS = 0.004  # for one connection at a time
TURN_SECONDS = 0.01
QUICK_SECONDS = 0.25e-3  # a piece that took less is followed by one of twice the size
PIECE_BYTES_MIN, PIECE_BYTES_MAX = 1 << 10, 1 << 16


class GatewayInput:
    """Bytes of one connection that are not yet taken."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._bytes, self._taken = b"", 0

    def __len__(self) -> int:
        return len(self._bytes) - self._taken

    def add(self, data: bytes) -> None:
        self._bytes, self._taken = (self._bytes[self._taken :] + data if self else data), 0

    def slice(self) -> Iterator[bytes]:
        """Pieces, until there are no more or SLICE_SECONDS are over."""
        size, began = PIECE_BYTES_MIN, self._clock()
        end = began + SLICE_SECONDS
        while self and began < end:
            piece = self._bytes[self._taken : self._taken + size]
            self._taken += len(piece)
            yield piece
            now = self._clock()
            if now - began < QUICK_SECONDS:
                size = min(2 * size, PIECE_BYTES_MAX)
            began = now

    def take_rest(self) -> bytes:
        rest, self._bytes, self._taken = self._bytes[self._taken :], b"", 0
        return rest


class InputTaker(Protocol):
    def take_slice(self) -> bool:
        """Takes input for at most SLICE_SECONDS; returns whether some is left."""


class GatewayTurns:
    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._line: deque[InputTaker] = deque()

    def arrived(self, connection: InputTaker) -> None:
        """Input of a connection that has none waiting."""
        if self._line:
            self._line.append(connection)
        elif connection.take_slice():
            self._line.append(connection)
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        end = self._clock() + TURN_SECONDS
        while self._line and self._clock() < end:
            connection = self._line.popleft()
            if connection.take_slice():
                self._line.append(connection)
        if self._line:
            asyncio.get_running_loop().call_soon(self._turn)
