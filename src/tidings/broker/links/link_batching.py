"""Decides how long the output of a link waits to be sent together with more.

A message is small beside the headers of its segment, so on a busy link it pays to wait until a segment is full. The
best wait depends on the publishers: those that send independently lose little by some milliseconds; those that send
the next message when the last was answered are delayed by the whole wait, and then there is nothing more to send
together. So the long wait is tried (tuning/adaptive_trial.py) where more than one piece of output comes for each write.
"""

from tidings.broker.tuning.adaptive_trial import AdaptiveTrial

SHORT = 0.2  # of the long wait
TURN_WRITES = 32
PATIENCE_TURNS_MAX = 256
PAYS_PIECES = 1.15  # for each write: less means that hardly anything came together


class LinkBatching:
    """Of one link.

    >>> batching = LinkBatching(10.0)
    >>> batching.wait_ms
    2.0
    >>> for turn in range(TURN_WRITES):
    ...     batching.wrote(2.0 * turn, pieces=2, size=400)
    >>> batching.wait_ms
    10.0
    """

    def __init__(self, longest_ms: float, *, enabled: bool = True) -> None:
        self._longest_ms = longest_ms
        self._trial = AdaptiveTrial(PATIENCE_TURNS_MAX, enabled=enabled)
        self._begin(0.0)

    @property
    def wait_ms(self) -> float:
        return self._longest_ms if self._trial.on else self._longest_ms * SHORT

    def _begin(self, at_ms: float) -> None:
        self._began_ms = at_ms
        self._writes = self._pieces = self._bytes = 0

    def wrote(self, at_ms: float, pieces: int, size: int) -> None:
        """So much output went with one write."""
        if not self._writes and not self._began_ms:
            self._began_ms = at_ms
        self._writes += 1
        self._pieces += pieces
        self._bytes += size
        if self._writes == TURN_WRITES * self._trial.units:
            rate = self._bytes / max(at_ms - self._began_ms, 1e-3)
            self._trial.judge(rate, pays=self._pieces / self._writes >= PAYS_PIECES)
            self._begin(at_ms)
