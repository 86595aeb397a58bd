"""The event calendar: virtual time in milliseconds. Events of the same time happen in the order they were entered.

>>> calendar = Calendar()
>>> seen = []
>>> calendar.at(2.0, seen.append, "b"); calendar.at(1.0, seen.append, "a"); calendar.at(2.0, seen.append, "c")
>>> calendar.run(), calendar.now, seen
(3, 2.0, ['a', 'b', 'c'])
"""

from collections.abc import Callable
from heapq import heappop, heappush
from math import inf
from typing import Any

from tidings.errors import UsageError


class Calendar:
    def __init__(self) -> None:
        self.now = 0.0
        self._heap: list[tuple[float, int, Callable[..., Any], tuple[Any, ...]]] = []
        self._number = 0

    def at(self, when: float, action: Callable[..., Any], *args: Any) -> None:
        if not when >= self.now:  # written so that NaN fails too
            raise UsageError("E_CALENDAR_PAST", f"an event at {when}, but it is {self.now}")
        self._number += 1
        heappush(self._heap, (when, self._number, action, args))

    def after(self, wait_ms: float, action: Callable[..., Any], *args: Any) -> None:
        if not wait_ms >= 0:
            raise UsageError("E_CALENDAR_PAST", f"an event {wait_ms} ms from now")
        self._number += 1
        heappush(self._heap, (self.now + wait_ms, self._number, action, args))

    def run(self, until: float = inf, events_max: float = inf) -> int:
        """Let events happen up to and including `until`, and set the clock there; the number of events."""
        heap, count = self._heap, 0
        while heap and heap[0][0] <= until and count < events_max:
            self.now, _, action, args = heappop(heap)
            action(*args)
            count += 1
        if until < inf and count < events_max:
            self.now = max(self.now, until)
        return count

    def __len__(self) -> int:
        return len(self._heap)
