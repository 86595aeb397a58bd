"""Short naps between small reads: what a network card calls interrupt moderation.

A publisher that sends its messages one by one, and fast, wakes the broker for each of them; then a message costs what a
turn of the event loop costs, ten times what it costs among others. If the broker sleeps for a moment after each such
read, several messages are there when it looks again. That pays only if they come all the same: a publisher that waits
for answers is just held up. So it is tried, and measured:

    awake ──N small reads of one connection, nobody else about, at a rate of two reads and more a nap──► napping
      ▲                                                                                                     │
      └──fewer messages came a second than before (then N doubles), or it is time to measure again─────────┘

All connections sleep along; hence only while hardly anything but this one is read, and for no longer than it takes to
deal with one large read.
"""

import time
from collections.abc import Callable

from tidings.broker.tuning.quick_ack import HELD_UP_MS
from tidings.kernel.client_input import Pace

SMALL_READ_BYTES = 2_048  # so little at a time means that the broker keeps up
NAP_SECONDS = 60e-6  # what is asked for
GATHER_SECONDS = 110e-6  # about what passes from read to read: the system's timers are not that fine
PHASE_READS = 16
PATIENCE_READS_MAX = 8192
PHASES = 64  # of napping, before the rate without naps is measured again
SAME_RATE = 0.75  # of the rate before: less means that somebody waits for us
CROWD = 1.75  # reads of all connections for each read of this one: its subscribers may be heard of in each nap


class ReadModeration:
    def __init__(
        self,
        received: Callable[[], int],
        *,
        clock: Callable[[], float] = time.perf_counter,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.pace = Pace(SMALL_READ_BYTES, HELD_UP_MS)  # counts reads, for us too while we are awake
        self._received = received  # how many messages so far
        self._clock = clock
        self._sleep = sleep
        self._patience = PHASE_READS
        self._rate = 0.0  # messages a second without naps
        self._phases = 0  # of napping left; 0: awake
        self._left = 0  # reads of a phase of napping
        self._begin(PHASE_READS)

    @property
    def napping(self) -> bool:
        return self._phases > 0

    def after_small_read(self, connection: int) -> None:
        """Plain messages of this connection were dealt with; perhaps sleep before the next ones."""
        if self.pace.counts(connection):
            return
        if connection != self.pace.connection:
            self.pace.connection = connection
            self._patience, self._phases = PHASE_READS, 0
            self._begin(PHASE_READS)
            return
        self._left -= 1
        if self._left <= 0:
            self._judge()
        if self._phases:
            self._sleep(NAP_SECONDS)

    def _begin(self, reads: int) -> None:
        self._length = reads
        self._left, self.pace.left = (reads, 0) if self._phases else (0, reads)
        self._begun = (self._clock(), self._received(), self.pace.reads)

    def _judge(self) -> None:
        """A phase is over: nap, go on, or stop."""
        at, messages, reads = self._begun
        seconds, messages = self._clock() - at, self._received() - messages
        rate = messages / seconds if seconds > 0 else 0.0
        alone = self.pace.reads - reads <= self._length * CROWD
        next_reads = PHASE_READS
        if not self._phases:
            self._rate = rate
            gathers = rate * GATHER_SECONDS >= 2 * messages / self._length
            self._phases = PHASES if alone and gathers else 0
        elif alone and rate >= self._rate * SAME_RATE:
            self._phases -= 1
            self._patience = PHASE_READS
        else:
            self._phases = 0
            next_reads = self._patience = min(2 * self._patience, PATIENCE_READS_MAX)
        self._begin(next_reads)
