"""Admission control: publishers are slowed down or turned away before messages wait too long.

Once a second the observer (broker/tuning/capacity_observer.py) says how many messages a second the broker can take so
that, by its
own estimate, all but a few wait no longer than configured. *slow*: a bucket fills with that many messages a second; a
connection that publishes when it is empty is not read from until it has filled again, and TCP tells the publisher.
*refuse*: while more comes than that, a connection that wants to publish to a destination for the first time is
refused with E_ADMISSION; clients that publish already go on.

All that happens once a read, never once a message; a broker without admission control has other connections, without
even the question whether there is any.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from tidings.errors import LimitError

BURST_SECONDS = 0.05  # of messages that may come at once
BURST_MESSAGES_MIN = 20
PAUSE_SECONDS_MIN, PAUSE_SECONDS_MAX = 0.002, 0.5
RATE_SECONDS = 0.5  # the time over which the present rate is measured


@dataclass(slots=True)
class Admission:
    waiting_s_max: float
    probability: float = 0.9999
    refuses: bool = False  # newcomers; otherwise everybody is slowed down
    clock: Callable[[], float] = field(kw_only=True)  # seconds, which never go back
    rate_allowed: float | None = None  # messages a second; None: not known yet, so everything
    pauses: int = 0
    refused: int = 0
    rate: float = 0.0  # of messages that come, lately
    _bucket: float = 0.0
    _received: int = 0
    _then: float = 0.0
    _window: tuple[float, int] = field(default=(0.0, 0))

    def took(self, received: int) -> float:
        """After a read, with the number of messages so far: for how many seconds to take no more from there."""
        now = self.clock()
        messages, self._received = received - self._received, received
        self._measure(now, received)
        passed, self._then = now - self._then, now
        if self.rate_allowed is None or self.refuses:
            return 0.0
        burst = max(self.rate_allowed * BURST_SECONDS, BURST_MESSAGES_MIN)
        self._bucket = min(burst, self._bucket + passed * self.rate_allowed) - messages
        if self._bucket >= 0 or not messages:
            return 0.0
        pause = -self._bucket / self.rate_allowed if self.rate_allowed > 0 else PAUSE_SECONDS_MAX
        if pause < PAUSE_SECONDS_MIN:
            return 0.0  # timers are not that fine: the debt is kept
        self.pauses += 1
        return min(pause, PAUSE_SECONDS_MAX)

    def newcomer(self) -> LimitError | None:
        """Returns the reason why a new publisher is refused; None: it is admitted."""
        if not self.refuses or self.rate_allowed is None or self.rate < self.rate_allowed:
            return None
        self.refused += 1
        share, wait_ms = f"{self.probability:.6g}", self.waiting_s_max * 1000
        return LimitError(
            "E_ADMISSION",
            f"{self.rate:.0f} messages a second come, {self.rate_allowed:.0f} are allowed so that {share} of them wait "
            f"at most {wait_ms:g} ms; try again later, or at another broker",
        )

    def _measure(self, now: float, received: int) -> None:
        since, before = self._window
        if now - since >= RATE_SECONDS:
            self.rate = (received - before) / (now - since)
            self._window = (now, received)
