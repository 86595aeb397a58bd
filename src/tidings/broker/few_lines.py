"""A bound on what strangers can make a broker write into its log: so many lines within a time, and then a count."""

import time
from collections.abc import Callable

LINES_MAX, PERIOD_SECONDS = 10, 10.0  # so many lines within this time; the next one says how many were left out


class FewLines:
    """
    >>> lines = FewLines(lambda: 0.0)
    >>> [lines.worth_one() for _ in range(12)].count(True), lines.take_left_out(), lines.take_left_out()
    (10, 2, 0)
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since = clock()
        self._lines = 0
        self._left_out = 0

    def worth_one(self) -> bool:
        now = self._clock()
        if now - self._since >= PERIOD_SECONDS:
            self._since, self._lines = now, 0
        self._lines += 1
        self._left_out += self._lines > LINES_MAX
        return self._lines <= LINES_MAX

    def take_left_out(self) -> int:
        """How many were not written since this was last asked."""
        left_out, self._left_out = self._left_out, 0
        return left_out
