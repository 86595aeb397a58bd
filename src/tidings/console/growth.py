"""Rates of counters that are looked at now and then.

>>> growth = Growth()
>>> growth.rate("a", 100, 1.0) is None  # it takes two looks
True
>>> growth.rate("a", 150, 3.0)
25.0
>>> growth.rate("a", 150, 3.1)  # too soon after the last look: as before
25.0
>>> growth.rate("a", 5, 5.0)  # the counter restarted
0.0
"""

from dataclasses import dataclass

AGAIN_SECONDS = 0.5
KEPT_SECONDS, KEYS_MAX = 60.0, 1000


@dataclass(frozen=True, slots=True)
class CounterReading:
    at: float
    count: int
    rate: float | None = None


class Growth:
    def __init__(self) -> None:
        self._seen: dict[str, CounterReading] = {}

    def rate(self, key: str, count: int, now: float) -> float | None:
        """A second, since the look before."""
        before = self._seen.get(key)
        if before is None:
            self._forget(now)
            self._seen[key] = CounterReading(now, count)
        elif now - before.at >= AGAIN_SECONDS:
            self._seen[key] = CounterReading(now, count, max(0, count - before.count) / (now - before.at))
        return self._seen[key].rate

    def _forget(self, now: float) -> None:
        """Drops keys that are no longer read."""
        if len(self._seen) >= KEYS_MAX:
            self._seen = {key: seen for key, seen in self._seen.items() if now - seen.at < KEPT_SECONDS}
