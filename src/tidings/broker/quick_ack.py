"""When to acknowledge at once what came from a socket.

TCP puts its acknowledgements off, for 40 ms and more, in the hope that an answer carries them. Some clients cannot
wait: one with a small send buffer, or one that sends in pieces with Nagle's algorithm, sends nothing more before. But
an acknowledgement is a packet of its own, and costs a fifth of what a lone message does, and most never miss it.

So it is tried: a connection whose reads follow each other closely does without. If one of its pauses is as long as
TCP's delay, the client may have been held up, and is served at once for a while. Whoever sends seldom is served at
once always: there it costs little.
"""

HELD_UP_MS = 30  # TCP waits for 40 ms at least
PATIENCE_READS = 1000


class QuickAck:
    """Of one connection.

    >>> quick = QuickAck()
    >>> sum(quick.wanted(0) for _ in range(5000))
    1000
    >>> quick.wanted(40), quick.wanted(0)
    (True, True)
    """

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = PATIENCE_READS

    def wanted(self, pause_ms: int) -> bool:
        """To be asked at each read; `pause_ms`: since the one before."""
        if self._left:
            self._left -= 1
            return True
        if pause_ms < HELD_UP_MS:
            return False
        self._left = PATIENCE_READS
        return True
