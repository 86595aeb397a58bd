"""The correction δ that keeps a publisher's timestamps within T_s of its broker's clock.

At connect time δ = t_broker − t_publisher. Every message arrives with the corrected time t + δ; when that is off by
more than T_s the broker computes δ again and sends it. Messages already on their way still carry the old correction, so
the broker must not judge them by the new one: corrections are numbered, the client confirms each before the first
message that uses it, and until then nothing new is sent. The stream is ordered, which is all this needs.

>>> watch = SkewWatch(tolerance_ms=100)
>>> watch.connect(client_ms=5_000, now_ms=9_000)
Correction(number=0, delta_ms=4000)
>>> watch.observe(corrected_ms=9_950, now_ms=10_000), watch.observe(corrected_ms=10_200, now_ms=10_500)
(None, Correction(number=1, delta_ms=4300))
>>> watch.observe(corrected_ms=10_300, now_ms=10_600)   # still the old δ: already taken care of
>>> watch.confirm(1)
>>> watch.observe(corrected_ms=10_900, now_ms=10_900)
"""

from dataclasses import dataclass

from tidings.errors import RemoteProtocolError, UsageError


@dataclass(frozen=True, slots=True)
class Correction:
    """For the client: add this to your clock, and confirm the number before you use it."""

    number: int
    delta_ms: int


class SkewWatch:
    """The broker's side, one for each publisher."""

    def __init__(self, tolerance_ms: int) -> None:
        if tolerance_ms < 0:
            raise UsageError("E_TRACKING_TIME", "the skew tolerance T_s must not be negative")
        self.tolerance_ms = tolerance_ms
        self._used = Correction(0, 0)
        self._sent = self._used

    @property
    def delta_ms(self) -> int:
        """The correction that the client uses now, as far as it has confirmed."""
        return self._used.delta_ms

    def connect(self, client_ms: int, now_ms: int) -> Correction:
        self._used = self._sent = Correction(0, now_ms - client_ms)
        return self._used

    def observe(self, corrected_ms: int, now_ms: int) -> Correction | None:
        """A message with this time has arrived: a new correction if it is out of tolerance."""
        error_ms = now_ms - corrected_ms
        if abs(error_ms) <= self.tolerance_ms or self._sent is not self._used:
            return None
        self._sent = Correction(self._used.number + 1, self._used.delta_ms + error_ms)
        return self._sent

    def confirm(self, number: int) -> None:
        if self._sent is self._used or number != self._sent.number:
            raise RemoteProtocolError("E_SKEW_CONFIRM", f"correction {number} was not sent or is confirmed already")
        self._used = self._sent
