"""Bounds what may wait unread in the sockets of publishers, by the waiting time that is measured there.

A publisher that is faster than the broker fills its send buffer and the broker's receive buffer, and each message waits
until both have been worked off. To read more slowly would only make that longer. So the broker reads as fast as it can,
and makes the buffers smaller, as CoDel keeps the queue of a router short:

    waited longer than the target, twice in a row ──► smaller window: at first what the broker carries in that time
    waited less than half of it, or small reads ────► larger window, until there is none
    make messages dearer than `COST`

Each publisher gets the same window, so that one which floods the broker takes no more of a turn of the event loop than
another. A burst that comes to a broker with nothing to do finds no window, and is not slowed down. Where a window is
smaller than a segment TCP would send nothing until a timer has run out: hence the segments of connections that may get
one are small from the beginning (`SEGMENT_BYTES`).

A window is the size of the receive buffer. TCP_WINDOW_CLAMP would not do: it bounds what is on the wire, and the system
goes on to advertise that much until the receive buffer, which it makes larger by itself, is full of unread messages.

What waits in the publisher's own send buffer is not seen from here, and the system lets that grow to megabytes: a
publisher for whom the bound is to hold has to limit it, as Tidings' client does (`limit_unsent` in
client/connection/transport.py).

Reference: K. Nichols, V. Jacobson, *Controlling Queue Delay*, ACM Queue 10(5), 2012.
"""

import asyncio
import socket
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from tidings.broker.tasks import Steps
from tidings.kernel.client_input import Pace, wait_bounds
from tidings.kernel.clock import now_ms
from tidings.kernel.forwarder import Forwarder
from tidings.node.clients.admission import Admission

SECONDS = 0.05  # between two decisions
LATELY_MS = 500  # who was heard of since may be a publisher
SEGMENT_BYTES = 4_000
WINDOW_MIN, WINDOW_MAX = 2 * SEGMENT_BYTES, 1 << 20
TARGET = 0.3  # of the bound: the rest is for what the publisher's own buffer holds, and for the way to the subscribers
QUANTILE = 0.99
SMALLER, LARGER = 0.7, 1.25
PATIENCE = 2  # decisions
COST, COST_WEIGHT = 1.1, 0.2  # of a message in small reads against the same in large ones; of the last of their means

SO_BUF_LOCK = 72  # Linux 5.14: which buffers keep the size that was asked for; Python has no name for it


@dataclass(frozen=True, slots=True)
class Waited:
    """Waiting times measured in an interval: messages by class."""

    counts: Sequence[float]
    bounds: Sequence[float]

    def quantile(self, p: float) -> float:
        """The bound of the class in which it lies; 0 if nothing was measured."""
        total, below = sum(self.counts), 0.0
        for count, bound in zip(self.counts, (*self.bounds, 2 * self.bounds[-1]), strict=True):
            below += count
            if total and below >= p * total:
                return bound
        return 0.0


class WindowControl:
    """Decides on the window; pure.

    >>> control = WindowControl(0.010)
    >>> [control.decide(waited_s, publishers=2, bytes_s=10e6) for waited_s in (0.1, 0.1, 0.1, 0.002)]
    [None, 15000, 10500, 10500]
    """

    def __init__(self, bound_s: float) -> None:
        self.window: int | None = None  # bytes; None: no limit
        self.shrunk = 0  # times
        self._target = TARGET * bound_s
        self._late = 0
        self._plain: float | None = None  # processor time of a byte while nothing was limited; None: not known
        self._cost: float | None = None  # the same, lately

    def decide(self, waited_s: float, publishers: int, bytes_s: float, busy: float = 0.0) -> int | None:
        """`waited_s`: that nearly all waited no longer than since the last decision; `bytes_s`: what came since, and
        `busy`: the share of a core that took."""
        if bytes_s > 0 and busy > 0:
            self._learn(busy / bytes_s)
        if waited_s > self._target:
            self._late += 1
            if self._late >= PATIENCE and not self._dear:
                self._shrink(publishers, bytes_s)
        else:
            self._late = 0
        if self.window is not None and (waited_s < self._target / 2 or self._dear):
            larger = int(self.window * LARGER)
            self.window = larger if larger < WINDOW_MAX else None
        return self.window

    def _learn(self, cost: float) -> None:
        self._cost = cost if self._cost is None else self._cost + (cost - self._cost) * COST_WEIGHT
        if self.window is None and self._late:
            self._plain = cost if self._plain is None else self._plain + (cost - self._plain) * COST_WEIGHT

    @property
    def _dear(self) -> bool:
        if self.window is None or self._plain is None or self._cost is None:
            return False
        return self._cost > COST * self._plain

    def _shrink(self, publishers: int, bytes_s: float) -> None:
        carried = bytes_s * self._target / max(1, publishers)
        smaller = carried if self.window is None else self.window * SMALLER
        window = int(min(max(smaller, WINDOW_MIN), WINDOW_MAX))
        self.shrunk += window != self.window
        self.window = window


class WindowedConnection(Protocol):
    heard_ms: int

    def bound_window(self, window: int | None) -> None: ...


class ReceiveWindows:
    """Carries out what the control decides, and tells admission control what was measured."""

    def __init__(
        self,
        admission: Admission,
        pace: Pace,
        forwarder: Forwarder,
        connections: Mapping[int, WindowedConnection],
    ) -> None:
        self._admission, self._pace, self._forwarder, self._connections = admission, pace, forwarder, connections
        self.control = WindowControl(admission.waiting_s_max)
        self._bounds = wait_bounds()
        self._counts = pace.wait_counts()
        self._then, self._bytes, self._messages = time.monotonic(), 0, 0
        self._cpu_s = time.process_time()
        self._bounded: set[WindowedConnection] = set()
        self._applied: int | None = None

    async def run(self) -> None:
        """Until it is cancelled."""
        steps = Steps()
        while True:
            await asyncio.sleep(SECONDS)
            steps.do("receive windows", self.tick)

    def tick(self) -> None:
        now, stats = time.monotonic(), self._forwarder.stats()
        counts = self._pace.wait_counts()
        waited = Waited([new - old for new, old in zip(counts, self._counts, strict=True)], self._bounds)
        passed = max(now - self._then, SECONDS / 2)
        bytes_s = (stats["received_bytes"] - self._bytes) / passed
        cpu_s, self._cpu_s = self._cpu_s, time.process_time()
        busy = (self._cpu_s - cpu_s) / passed
        admission = self._admission
        admission.waiting_s, admission.rate = (
            waited.quantile(QUANTILE),
            (stats["received"] - self._messages) / passed,
        )
        self._then, self._counts = now, counts
        self._bytes, self._messages = stats["received_bytes"], stats["received"]
        if admission.refuses:
            return
        late = admission.waiting_s > TARGET * admission.waiting_s_max
        lately = self._lately() if late or self.control.window is not None else []
        self._apply(self.control.decide(admission.waiting_s, len(lately), bytes_s, busy), lately)

    def _lately(self) -> list[WindowedConnection]:
        since = now_ms() - LATELY_MS
        return [one for one in self._connections.values() if one.heard_ms >= since]

    def _apply(self, window: int | None, lately: Iterable[WindowedConnection]) -> None:
        if window is None:
            for one in self._bounded:
                one.bound_window(None)
            self._bounded.clear()
        else:
            for one in lately:
                if window != self._applied or one not in self._bounded:
                    one.bound_window(window)
            self._bounded.update(lately)
        self._applied = window


def bound_window(plain: socket.socket, window: int | None) -> None:
    """None: the buffer becomes large again, and the system sees to its size as before."""
    with suppress(OSError):  # the client has hung up already, or the system is older
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, WINDOW_MAX if window is None else window)
        if window is None:
            plain.setsockopt(socket.SOL_SOCKET, SO_BUF_LOCK, 0)


def small_segments(listening: socket.socket) -> None:
    """Connections that are accepted from now on exchange small segments."""
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, SEGMENT_BYTES)
