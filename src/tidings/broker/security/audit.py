"""Writes the audit log: logins, refusals and administrative actions, one JSON object a line.

Lines that strangers can cause go through the limiter of the log (`log_rate_limit`), which counts what it leaves out.
Actions take rights, and each is written. No line contains a password, a token or the body of a message.

    {"time": "…", "level": "info", "event": "action", "user": "ann", "address": "10.0.0.7", "action": "purge queue", …}
"""

import logging
import os
import sys
from collections.abc import Mapping
from io import TextIOWrapper
from pathlib import Path

from tidings.broker.log_rate_limit import LogRateLimit
from tidings.broker.logs import JsonFormatter, note
from tidings.errors import ConfigError

log = logging.getLogger("tidings.audit")
log.propagate = False
_OFF = logging.CRITICAL + 1
log.setLevel(_OFF)
broker_log = logging.getLogger("tidings.broker")


class _AuditFile(logging.FileHandler):
    """Readable by its owner only. What cannot be written is reported to the log of the broker, once until it can."""

    def __init__(self, path: Path) -> None:
        self._failing = False
        super().__init__(path, encoding="utf-8", delay=False)

    def _open(self) -> TextIOWrapper:
        descriptor = os.open(self.baseFilename, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        return os.fdopen(descriptor, "a", encoding="utf-8")

    def emit(self, record: logging.LogRecord) -> None:
        failing = self._failing
        super().emit(record)
        if failing and self._failing is failing:
            self._failing = False

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  # the name is logging's
        if not self._failing:
            self._failing = True
            reason = str(sys.exc_info()[1])
            note(broker_log, logging.ERROR, "the audit log cannot be written", file=self.baseFilename, reason=reason)


def open_audit(path: Path | None) -> None:
    """Write to this file from now on, opened again even if its name is the same; None: write nothing."""
    try:
        handlers: list[logging.Handler] = [] if path is None else [_AuditFile(path)]
    except OSError as error:
        reason = f"logging.audit_file: {path} cannot be opened ({error.strerror}); name a file that can be written"
        raise ConfigError([reason]) from None
    before, log.handlers[:] = list(log.handlers), handlers
    for handler in handlers:
        handler.setFormatter(JsonFormatter())
    log.setLevel(logging.INFO if handlers else _OFF)
    for handler in before:
        handler.close()


class Audit:
    def __init__(self, lines: LogRateLimit) -> None:
        self._lines = lines

    def login(self, user: str, address: str, protocol: str) -> None:
        self._lines.note(log, logging.INFO, "login", address, user=user, protocol=protocol)

    def login_refused(self, user: str, address: str, protocol: str, code: str) -> None:
        self._lines.note(log, logging.WARNING, "login-refused", address, user=user, protocol=protocol, code=code)

    def request_refused(self, user: str, address: str, protocol: str, reason: str) -> None:
        """The user lacks a right."""
        self._lines.note(log, logging.WARNING, "request-refused", address, user=user, protocol=protocol, reason=reason)

    def action(
        self, user: str, address: str, protocol: str, action: str, fields: Mapping[str, object], code: str = ""
    ) -> None:
        """An administrative action, with what it applied to; `code`: the error with which it ended."""
        head: dict[str, object] = {"user": user, "address": address, "protocol": protocol, "action": action}
        note(log, logging.INFO, "action", **{**fields, **head}, **({"code": code} if code else {}))
