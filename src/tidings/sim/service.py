"""Brokers take time: an input queue for each, served one message after the other.

How long a message takes is a constant and so much for each entry of the broker's table, different for publications and
for control messages; what is packed into one message is worked off piece by piece, and saves the constant only. While a
broker is busy messages wait in the order they came, so a broker that is asked for more than it can do delays
everything behind: congestion.

>>> from tidings.sim.calendar import Calendar
>>> calendar = Calendar()
>>> done = []
>>> queue = ServiceQueue(calendar, lambda item: 10.0, lambda item: done.append((calendar.now, item)))
>>> queue.put("a"), queue.put("b"), len(queue)
(None, None, 2)
>>> _ = calendar.run()
>>> done
[(10.0, 'a'), (20.0, 'b')]
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from tidings.sim.calendar import Calendar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ServiceModel:
    """Milliseconds. A message costs its constant once and each change in it something for every entry of the table.

    The defaults are such that the brokers of the pruning experiments are as fast as the paper's: some tens of
    milliseconds a publication, and three or four messages a second in the midst of a burst.
    """

    publication_ms: float = 2.0
    publication_entry_ms: float = 0.006
    control_ms: float = 160.0
    control_entry_ms: float = 0.03

    def publication(self, entries: int) -> float:
        return self.publication_ms + self.publication_entry_ms * entries

    def control(self, entries: int, changes: int = 1) -> float:
        return self.control_ms + changes * self.control_entry_ms * entries


class ServiceQueue(Generic[T]):
    """`time_of(item)` is asked when its turn comes, `done(item)` told when its time is over."""

    def __init__(self, calendar: Calendar, time_of: Callable[[T], float], done: Callable[[T], None]) -> None:
        self._calendar, self._time_of, self._done = calendar, time_of, done
        self._waiting: deque[T] = deque()  # the first is being served
        self.busy_ms = 0.0
        self.length_max = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, item: T) -> None:
        self._waiting.append(item)
        if len(self._waiting) > self.length_max:
            self.length_max = len(self._waiting)
        if len(self._waiting) == 1:
            self._begin()

    def drop(self, unwanted: Callable[[T], bool]) -> list[T]:
        """Take waiting items away; the one being served stays."""
        gone = [item for item in list(self._waiting)[1:] if unwanted(item)]
        if gone:
            self._waiting = deque(item for i, item in enumerate(self._waiting) if i == 0 or not unwanted(item))
        return gone

    def _begin(self) -> None:
        taken = self._time_of(self._waiting[0])
        self.busy_ms += taken
        self._calendar.after(taken, self._finish)

    def _finish(self) -> None:
        self._done(self._waiting[0])  # what it changes counts for the next one's time
        self._waiting.popleft()
        if self._waiting:
            self._begin()
