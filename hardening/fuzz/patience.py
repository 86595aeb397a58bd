"""Seconds that count, on a machine that has other things to do.

"Answered within a second" is said of a broker that may run. A second in which this process was stopped, or in which the
broker stood in line for a processor, tells nothing of it; a second in which it computes or sleeps counts in full.

>>> import os
>>> own = Patience(os.getpid())
>>> own.tick(), 0.0 <= own.now < STOP_SECONDS, own.stops
(None, True, 0)
"""

import time
from pathlib import Path

TICK_SECONDS = 0.02
STOP_SECONDS = 0.25  # so much later than it wanted to wake: this process did not run, and sees nothing of that time


class Patience:
    """`tick` is to be called every `TICK_SECONDS`. `pid`: of the broker."""

    def __init__(self, pid: int) -> None:
        self.now = 0.0
        self.stops = 0  # how often nobody could run
        self._tasks = Path(f"/proc/{pid}/task")
        self._wall = time.monotonic()
        self._waited = self._waits()

    def tick(self) -> None:
        wall, waited = time.monotonic(), self._waits()
        passed, self._wall = wall - self._wall, wall
        longest = max((waited[task] - self._waited.get(task, 0.0) for task in waited), default=0.0)
        self._waited = waited
        if passed > STOP_SECONDS:
            self.stops += 1
        else:
            self.now += max(passed - longest, 0.0)

    def _waits(self) -> dict[str, float]:
        """Of each thread of the broker, seconds that it has stood in line; nothing where the system does not tell."""
        found = {}
        for task in self._tasks.glob("*"):
            try:
                found[task.name] = int((task / "schedstat").read_text().split()[1]) / 1e9
            except (OSError, IndexError):  # a thread that has ended
                continue
        return found
