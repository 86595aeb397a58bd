"""The console's own certificate, which can be renewed while it runs.

The server keeps the context it was started with. That context has no say but to hand each handshake on to the newest
one, as servers do for several names on one address.
"""

import ssl

from tidings.broker.config.tls import TlsTable
from tidings.broker.security.tls import server_context
from tidings.errors import ConfigError, UsageError


class Certificate:
    """`key` empty: it is in the certificate's file. Raises UsageError if they are invalid."""

    def __init__(self, file: str, key: str = "") -> None:
        self.file, self._key = file, key
        self._newest = _context(file, key)
        self.context = _context(file, key)
        self.context.sni_callback = self._hand_on

    def renew(self, file: str = "", key: str = "") -> None:
        """Read the files again, or others; new connections use their contents."""
        if not file:
            file, key = self.file, self._key
        self._newest = _context(file, key)
        self.file, self._key = file, key

    def _hand_on(self, connection: ssl.SSLObject, name: str | None, context: ssl.SSLContext) -> None:
        connection.context = self._newest


def _context(file: str, key: str) -> ssl.SSLContext:
    try:
        return server_context(TlsTable(certificate=file, key=key))
    except ConfigError as error:
        reason = error.problems[0].partition(": ")[2]  # before that it is about a configuration that we do not have
        raise UsageError("E_TLS", f"cannot use the console's certificate: {reason}") from None
