"""Output to sockets: one write a connection, once in an iteration of the event loop, or at once if there is time."""

import asyncio
from collections.abc import Callable
from typing import Protocol

from tidings.kernel.clock import now_ms
from tidings.kernel.forwarder import Forwarder

FLUSH_BYTES = 1 << 20  # this much output does not wait for the end of the loop iteration
WRITE_BYTES = 1 << 20  # of one write to one socket


class OutputEnd(Protocol):
    """A socket, of a client or of a link."""

    def flushed(self, data: bytes, left: int) -> bool:
        """Takes output of the forwarder, and the number of bytes left there; True: it can take more at once."""


class OutputFlush:
    """`follow_up`: called in a later iteration if a write has left events, or made room for publishers that wait."""

    def __init__(self, forwarder: Forwarder, follow_up: Callable[[], None]) -> None:
        self.ends: dict[int, OutputEnd] = {}  # by the forwarder's number
        self._forwarder, self._follow_up = forwarder, follow_up
        self._soon = False
        self._writing = False

    def soon(self) -> None:
        if self._forwarder.fresh_bytes() > FLUSH_BYTES:
            self.now()
        else:
            self._next_round()

    def now(self) -> None:
        """One write for each connection with output."""
        if self._writing:  # called from a write: newer output must not overtake the output in progress
            self._next_round()
            return
        self._soon, self._writing = False, True
        try:
            self._write_all()
        finally:
            self._writing = False
        if self._forwarder.has_events() or self._forwarder.has_resumable():
            asyncio.get_running_loop().call_soon(self._follow_up)

    def _write_all(self) -> None:
        for number, data, left in self._forwarder.write_all(WRITE_BYTES, now_ms()):
            end = self.ends.get(number)
            if end is not None and end.flushed(data, left):  # more than fits into one write
                self._forwarder.set_writable(number, True)
                self._next_round()

    def _next_round(self) -> None:
        if not self._soon:
            self._soon = True
            asyncio.get_running_loop().call_soon(self.now)
