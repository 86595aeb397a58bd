"""Accounting of a link's bounded send queue: messages waiting, messages in flight, and backpressure.

A message waits until the peer's window has room, is in flight until the peer grants `Credit` for it, and then is
forgotten. Above the high mark the sources that feed the queue have to stop, at the low mark they go on: two marks,
so that one message more or less does not switch them to and fro. What does not fit is refused, never dropped silently.

>>> queue = SendQueue(window_bytes=100, high_bytes=150, low_bytes=90, bytes_max=200)
>>> queue.offer(90), queue.offer(90), queue.paused, queue.offer(90)
(True, True, True, False)
>>> queue.take(), queue.in_flight_bytes, queue.queued_bytes
([90], 90, 90)
>>> queue.credited(90), queue.take(), queue.paused
(90, [90], False)
"""

from collections import deque

from tidings.errors import UsageError


class SendQueue:
    def __init__(
        self,
        window_bytes: int = 1 << 20,
        high_bytes: int = 4 << 20,
        low_bytes: int = 1 << 20,
        bytes_max: int = 8 << 20,
    ) -> None:
        if not 0 <= low_bytes <= high_bytes <= bytes_max or window_bytes < 1:
            raise UsageError("E_LINK_QUEUE", "marks must satisfy 0 ≤ low ≤ high ≤ max, and the window be at least 1")
        self.window_bytes = window_bytes
        self.high_bytes, self.low_bytes, self.bytes_max = high_bytes, low_bytes, bytes_max
        self.queued_bytes = 0
        self.in_flight_bytes = 0
        self.paused = False
        self._waiting: deque[int] = deque()

    @property
    def held_bytes(self) -> int:
        """All that this link has in memory or still answers for."""
        return self.queued_bytes + self.in_flight_bytes

    def offer(self, size: int) -> bool:
        """Queue a message of this size; False if it does not fit."""
        if self.held_bytes + size > self.bytes_max:
            return False
        self._waiting.append(size)
        self.queued_bytes += size
        if self.held_bytes > self.high_bytes:
            self.paused = True
        return True

    def take(self) -> list[int]:
        """Sizes of the messages that may be sent now, in order. One message always may while nothing is in flight,
        or one larger than the window would wait for ever."""
        ready = []
        while self._waiting:
            size = self._waiting[0]
            if self.in_flight_bytes and self.in_flight_bytes + size > self.window_bytes:
                break
            self._waiting.popleft()
            self.queued_bytes -= size
            self.in_flight_bytes += size
            ready.append(size)
        return ready

    def credited(self, size: int) -> int:
        """Records bytes that the peer is done with; a peer that grants more than it was sent gains nothing by it."""
        done = min(size, self.in_flight_bytes)
        self.in_flight_bytes -= done
        if self.held_bytes <= self.low_bytes:
            self.paused = False
        return done
