import logging

import pytest

from tidings.broker.log_rate_limit import LINES_MAX, PERIOD_SECONDS, LogRateLimit
from tidings.broker.security.tls_failures import TlsFailures


def test_strangers_do_not_fill_the_log(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging.getLogger("tidings"), "propagate", True)
    now = 0.0
    failed = TlsFailures(LogRateLimit(lambda: now))
    for _ in range(LINES_MAX + 5):
        failed.failed("10.0.0.1", "0.0.0.0:7300", ConnectionAbortedError())
    failed.failed("10.0.0.1", "0.0.0.0:7300", ConnectionResetError())  # only looked whether somebody is there
    assert len(caplog.records) == LINES_MAX
    now = PERIOD_SECONDS
    failed.failed("10.0.0.1", "0.0.0.0:7300", ConnectionAbortedError())
    assert caplog.records[-2].fields == {"line": "TLS handshake failed", "count": 5}  # type: ignore[attr-defined]
    assert failed.by_reason == {"TIMEOUT": LINES_MAX + 6, "GONE": 1}
