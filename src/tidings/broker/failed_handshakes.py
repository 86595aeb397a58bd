"""TLS handshakes that came to nothing: counted by reason, and told in the log, but not as often as strangers like."""

import logging
import ssl
import time
from collections import Counter
from collections.abc import Callable

from tidings.broker.few_lines import FewLines
from tidings.broker.logs import note

log = logging.getLogger("tidings.tls")


class FailedHandshakes:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.by_reason: Counter[str] = Counter()
        self._lines = FewLines(clock)

    def failed(self, address: str, listener: str, error: OSError) -> None:
        reason, words = reason_of(error)
        self.by_reason[reason] += 1
        fields = {"address": address, "listener": listener, "reason": words}
        if reason == "GONE":  # as whoever only looks whether the port is open does
            note(log, logging.DEBUG, "TLS handshake not finished", **fields)
        elif self._lines.worth_one():
            if left_out := self._lines.take_left_out():
                fields["left_out"] = str(left_out)
            note(log, logging.WARNING, "TLS handshake failed", **fields)


def reason_of(error: OSError) -> tuple[str, str]:
    """One of a few, to count by; and in words.

    >>> reason_of(ConnectionResetError("reset by peer"))
    ('GONE', 'reset by peer')
    """
    if isinstance(error, ssl.SSLError):
        reason = error.reason or type(error).__name__
        if isinstance(error, ssl.SSLCertVerificationError):
            return reason, f"the client's certificate: {error.verify_message}"
        return reason, reason.lower().replace("_", " ")
    if isinstance(error, ConnectionAbortedError):  # the event loops' way to say it
        return "TIMEOUT", "not finished in time"
    return "GONE", str(error) or "the client left"
