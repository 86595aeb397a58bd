"""Decides if a socket acknowledges received data at once (TCP_QUICKACK).

TCP may put its acknowledgements off, for 40 ms and more, in the hope that an answer carries them. Some clients cannot
wait: one with a small send buffer, or one that sends in pieces with Nagle's algorithm, sends nothing more before. But
an acknowledgement is a packet of its own, and costs a fifth of what a lone message does, and most never miss it.

So it is tried: a connection whose reads follow each other does without after a while. If one of its pauses is then as
long as TCP's delay, the client may have been held up, and is served at once again, for twice as many reads. Whoever
sends seldom is served at once nearly always: there it costs little.
"""

HELD_UP_MS = 30  # TCP waits for 40 ms at least
PATIENCE_READS, PATIENCE_READS_MAX = 1000, 64_000
ALWAYS = 1 << 62  # reads
AT_ONCE, PUT_OFF = 1, 0  # what TCP_QUICKACK is set to


class QuickAck:
    """Of one connection.

    >>> quick = QuickAck()
    >>> said = [quick.setting(0) for _ in range(5000)]
    >>> said.count(AT_ONCE), said[999], said[1000:].count(None)
    (999, 0, 4000)
    >>> quick.setting(40), [quick.setting(0) for _ in range(5000)].count(AT_ONCE)
    (1, 1999)
    """

    __slots__ = ("_patience", "left")

    def __init__(self, *, adaptive: bool = True) -> None:
        self.left = self._patience = (
            PATIENCE_READS if adaptive else ALWAYS
        )  # left: reads that are to be acknowledged at once

    def setting(self, pause_ms: int) -> int | None:
        """To be asked at each read; `pause_ms`: since the one before. None: leave it."""
        if self.left:
            self.left -= 1
            return AT_ONCE if self.left else PUT_OFF
        if pause_ms < HELD_UP_MS:
            return None
        self.left = self._patience = min(2 * self._patience, PATIENCE_READS_MAX)
        return AT_ONCE
