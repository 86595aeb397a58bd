"""Sleeps for a moment between small reads, as network cards do (interrupt moderation).

A publisher that sends its messages one by one, and fast, wakes the broker for each of them; then a message costs as
much as a turn of the event loop, ten times what it costs among others. If the broker sleeps briefly after such a read,
several messages have arrived when it looks again. That pays only if they come anyway (adaptive_trial.py). All
connections wait meanwhile; hence it sleeps only while hardly any other connection is read, and no longer than a large
read takes.
"""

import time
from collections.abc import Callable

from tidings.broker.tuning.adaptive_trial import AdaptiveTrial
from tidings.broker.tuning.quick_ack import HELD_UP_MS
from tidings.kernel.client_input import Pace

SMALL_READ_BYTES = 2_048  # so little at a time means that the broker keeps up
SLEEP_SECONDS = 60e-6  # what is requested
GATHER_SECONDS = 110e-6  # about what passes from read to read: the system's timers are not that fine
PHASE_READS = 16
PATIENCE_READS_MAX = 8192
CROWD = 1.75  # reads of all connections for each read of this one: its subscribers may be heard of in each pause


class ReadModeration:
    def __init__(
        self,
        received: Callable[[], int],
        *,
        clock: Callable[[], float] = time.perf_counter,
        sleep: Callable[[float], None] = time.sleep,
        enabled: bool = True,
    ) -> None:
        self.pace = Pace(SMALL_READ_BYTES, HELD_UP_MS)  # counts reads, for this module too while it does not sleep
        self._received = received  # how many messages so far
        self._clock = clock
        self._sleep = sleep
        self._trial = AdaptiveTrial(PATIENCE_READS_MAX // PHASE_READS, enabled=enabled)
        self._left = 0  # reads of a phase with pauses
        self._begin()

    @property
    def active(self) -> bool:
        return self._trial.on

    def after_small_read(self, connection: int) -> None:
        """Plain messages of this connection were processed; perhaps sleep before the next ones."""
        if self.pace.counts(connection):
            return
        if connection != self.pace.connection:
            self.pace.connection = connection
            self._trial.reset()
            self._begin()
            return
        self._left -= 1
        if self._left <= 0:
            self._judge()
        if self._trial.on:
            self._sleep(SLEEP_SECONDS)

    def _begin(self) -> None:
        reads = self._trial.units * PHASE_READS
        self._left, self.pace.left = (reads, 0) if self._trial.on else (0, reads)
        self._length = reads
        self._begun = (self._clock(), self._received(), self.pace.reads)

    def _judge(self) -> None:
        at, messages, reads = self._begun
        seconds, messages = self._clock() - at, self._received() - messages
        rate = messages / seconds if seconds > 0 else 0.0
        alone = self.pace.reads - reads <= self._length * CROWD
        gathers = self._trial.on or rate * GATHER_SECONDS >= 2 * messages / self._length
        self._trial.judge(rate, pays=alone and gathers)
        self._begin()
