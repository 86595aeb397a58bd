"""Counts failed TLS handshakes by reason, and logs them within the rate limits."""

import logging
import ssl
from collections import Counter

from tidings.broker.log_rate_limit import LogRateLimit

log = logging.getLogger("tidings.tls")


class TlsFailures:
    def __init__(self, lines: LogRateLimit) -> None:
        self.by_reason: Counter[str] = Counter()
        self._lines = lines

    def failed(self, address: str, listener: str, error: OSError) -> None:
        reason, words = reason_of(error)
        self.by_reason[reason] += 1
        if reason == "GONE":  # such as a port scan
            level, event = logging.DEBUG, "TLS handshake not finished"
        else:
            level, event = logging.WARNING, "TLS handshake failed"
        self._lines.note(log, level, event, address, listener=listener, reason=words)


def reason_of(error: OSError) -> tuple[str, str]:
    """A code to count by, and the reason as text.

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
    return "GONE", str(error) or "the client disconnected"
