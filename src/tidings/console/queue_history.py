"""Depths of queues over the last hour, as far as somebody has had the console open.

>>> history = QueueHistory()
>>> for second, given in ((0, 0), (20, 100), (40, 100)):
...     history.add("tidings://a", [{"name": "queue:q", "waiting": 5, "unacknowledged": 1, "given": given}], second)
>>> [(one.at, one.waiting, one.given_s) for one in history.of("tidings://a", "queue:q")]
[(0, 5, 0.0), (20, 5, 5.0), (40, 5, 0.0)]
"""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

EVERY_SECONDS = 20.0
HOUR_SECONDS = 3600.0
QUEUES = 100  # of each broker, the fullest
SERIES_MAX = 1000


@dataclass(frozen=True, slots=True)
class QueueMoment:
    at: float  # seconds since the epoch
    waiting: int
    unacknowledged: int
    given: int
    given_s: float = 0.0  # deliveries a second, since the moment before


class QueueHistory:
    def __init__(self) -> None:
        self._series: dict[tuple[str, str], deque[QueueMoment]] = {}

    def add(self, url: str, items: Iterable[Mapping[str, Any]], at: float) -> None:
        for item in items:
            series = self._series.setdefault((url, item["name"]), deque(maxlen=round(HOUR_SECONDS / EVERY_SECONDS)))
            rate = 0.0
            if series and at > series[-1].at:
                rate = max(0, item["given"] - series[-1].given) / (at - series[-1].at)
            series.append(QueueMoment(at, item["waiting"], item["unacknowledged"], item["given"], rate))
        self._forget(at)

    def of(self, url: str, name: str) -> list[QueueMoment]:
        if (found := self._series.get((url, name))) is None:
            return []
        return [one for one in found if one.at > found[-1].at - HOUR_SECONDS]

    def _forget(self, now: float) -> None:
        """Drops queues that have been gone or empty for an hour, and the longest unseen if there are too many."""
        old = [key for key, series in self._series.items() if series[-1].at <= now - HOUR_SECONDS]
        if (more := len(self._series) - len(old) - SERIES_MAX) > 0:
            old += sorted(self._series.keys() - set(old), key=lambda key: self._series[key][-1].at)[:more]
        for key in old:
            del self._series[key]
