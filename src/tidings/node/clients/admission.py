"""Admission control: publishers are slowed down or turned away before messages wait too long.

*slow*: the broker bounds what may wait unread in the sockets of publishers (broker/tuning/receive_windows.py), and TCP
tells them. *refuse*: while messages wait longer than configured, or more come than the broker's own estimate says it
can take so that they do not, a connection that wants to publish to a destination for the first time is refused with
E_ADMISSION; clients that publish already go on.

Nothing here is done once a message, or once a read.
"""

from dataclasses import dataclass

from tidings.errors import LimitError


@dataclass(slots=True)
class Admission:
    waiting_s_max: float
    probability: float = 0.9999
    refuses: bool = False  # newcomers; otherwise everybody is slowed down
    rate_allowed: float | None = None  # messages a second, by the estimate; None: not known yet
    rate: float = 0.0  # of messages that come, lately
    waiting_s: float = 0.0  # that nearly all of them waited in their sockets, lately
    refused: int = 0

    @property
    def overloaded(self) -> bool:
        predicted = self.rate_allowed is not None and self.rate >= self.rate_allowed
        return predicted or self.waiting_s > self.waiting_s_max

    def newcomer(self) -> LimitError | None:
        """Returns the reason why a new publisher is refused; None: it is admitted."""
        if not self.refuses or not self.overloaded:
            return None
        self.refused += 1
        return LimitError("E_ADMISSION", f"{self._reason()}; try again later, or at another broker")

    def _reason(self) -> str:
        share, wait_ms = f"{self.probability:.6g}", self.waiting_s_max * 1000
        if self.waiting_s > self.waiting_s_max:
            return f"messages wait {self.waiting_s * 1000:.3g} ms, of which at most {wait_ms:g} ms are allowed"
        return (
            f"{self.rate:.0f} messages a second come, {self.rate_allowed:.0f} are allowed so that {share} of them wait "
            f"at most {wait_ms:g} ms"
        )
