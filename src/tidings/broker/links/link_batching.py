"""Decides how long the output of a link waits to be sent together with more.

A message is small beside the headers of its segment, so on a busy link it pays to wait until a segment is full. The
best wait depends on the publishers: those that send independently lose little by some milliseconds; those that send
the next message when the last was answered are delayed by the whole wait, and then there is nothing more to send
together. So the long wait is tried, and measured:

    short ──a number of writes for which more than one piece of output came on average──► long
      ▲                                                                                    │
      └──less came a second than before (then it is not tried again so soon), hardly ──────┘
         anything came together, or it is time to measure again
"""

SHORT = 0.2  # of the long wait
TURN_WRITES = 32
TURNS_LONG = 64  # before the rate of short waits is measured again
PATIENCE_TURNS_MAX = 256
PAYS_PIECES = 1.15  # for each write: less means that nobody came to share
SAME_RATE = 0.75  # of the bytes a second of before: less means that somebody waits for us


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

    def __init__(self, longest_ms: float) -> None:
        self._longest_ms = longest_ms
        self.wait_ms = longest_ms * SHORT
        self._rate = 0.0  # bytes a millisecond, with short waits
        self._patience = 1  # turns with short waits before the long one is tried
        self._turns_left = 1
        self._begin(0.0)

    @property
    def is_long(self) -> bool:
        return self.wait_ms == self._longest_ms

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
        if self._writes == TURN_WRITES:
            self._judge(self._bytes / max(at_ms - self._began_ms, 1e-3), self._pieces / self._writes)
            self._begin(at_ms)

    def _judge(self, rate: float, pieces: float) -> None:
        self._turns_left -= 1
        if not self.is_long:
            self._rate = rate
            if pieces >= PAYS_PIECES and self._turns_left <= 0:
                self._switch(self._longest_ms, TURNS_LONG)
        elif rate < SAME_RATE * self._rate:
            self._patience = min(2 * self._patience, PATIENCE_TURNS_MAX)
            self._switch(self._longest_ms * SHORT, self._patience)
        elif pieces < PAYS_PIECES or self._turns_left <= 0:
            self._switch(self._longest_ms * SHORT, 1)
        else:
            self._patience = 1

    def _switch(self, wait_ms: float, turns: int) -> None:
        self.wait_ms, self._turns_left = wait_ms, turns
