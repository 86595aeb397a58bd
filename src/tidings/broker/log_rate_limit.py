"""Limits the lines of the log that peers can cause: per kind of line, and per address prefix within a kind.

Within PERIOD_SECONDS each prefix (IPv4 /24, IPv6 /48) may cause LINES_MAX lines of a kind, and all prefixes together
LINES_ALL_MAX. Further lines are counted; when the period is over, one line reports how many were suppressed. Memory is
bounded by LINES_ALL_MAX prefixes a kind.
"""

import logging
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from tidings.broker.links.addresses import prefix_of
from tidings.broker.logs import note

LINES_MAX, LINES_ALL_MAX, PERIOD_SECONDS = 10, 50, 10.0


@dataclass(slots=True)
class _Period:
    """Of one kind of line."""

    logger: logging.Logger
    level: int
    began: float
    lines: int = 0
    by_prefix: Counter[str] = field(default_factory=Counter)
    left_out: int = 0


class LogRateLimit:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.suppressed: Counter[str] = Counter()  # lines left out so far, by kind
        self._clock = clock
        self._periods: dict[str, _Period] = {}

    def note(self, logger: logging.Logger, level: int, event: str, address: str, **fields: object) -> None:
        """Log an event caused by this address, within its limits; an empty address: not known."""
        if logger.isEnabledFor(level) and self.allows(logger, level, event, address):
            note(logger, level, event, **({"address": address} if address else {}), **fields)

    def allows(self, logger: logging.Logger, level: int, kind: str, address: str) -> bool:
        """True if the caller may write one more line of this kind; otherwise the line is counted as suppressed."""
        period = self._periods.get(kind)
        if period is None or self._clock() - period.began >= PERIOD_SECONDS:
            self._end(kind)
            period = self._periods[kind] = _Period(logger, level, self._clock())
        prefix = prefix_of(address)
        if period.lines >= LINES_ALL_MAX or period.by_prefix[prefix] >= LINES_MAX:
            period.left_out += 1
            self.suppressed[kind] += 1
            return False
        period.lines += 1
        period.by_prefix[prefix] += 1
        return True

    def tick(self) -> None:
        """About once a second: log how many lines were suppressed in periods that are over."""
        now = self._clock()
        for kind in [kind for kind, period in self._periods.items() if now - period.began >= PERIOD_SECONDS]:
            self._end(kind)

    def _end(self, kind: str) -> None:
        period = self._periods.pop(kind, None)
        if period is not None and period.left_out:
            note(period.logger, period.level, "suppressed further lines of this kind", line=kind, count=period.left_out)
