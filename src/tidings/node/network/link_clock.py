"""The time of the links, in milliseconds: it never goes back, as the wall clock may, by which messages expire
(`now_ms`)."""


class LinkClock:
    def __init__(self) -> None:
        self.now = 0.0

    def at(self, now: float) -> float:
        """It is so late. A driver tells it before each turn of the node."""
        self.now = max(self.now, now)
        return self.now
