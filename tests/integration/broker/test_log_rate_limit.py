"""How many lines of the log peers can cause."""

import asyncio
import logging

import pytest
from hardening.support.links import eventually

from tidings.broker import log_rate_limit
from tidings.broker.http.metrics import Metrics
from tidings.broker.log_rate_limit import LINES_ALL_MAX, LINES_MAX, PERIOD_SECONDS, LogRateLimit
from tidings.testing.local_broker import local_broker, run

LOG = logging.getLogger("tidings.broker")


@pytest.fixture(autouse=True)
def _seen(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging.getLogger("tidings"), "propagate", True)
    caplog.set_level(logging.INFO, "tidings")


def summaries(caplog: pytest.LogCaptureFixture) -> list[dict[str, object]]:
    return [one.fields for one in caplog.records if "suppressed" in one.getMessage()]  # type: ignore[attr-defined]


def test_each_prefix_has_a_share_and_the_rest_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0
    lines = LogRateLimit(lambda: now)
    for number in range(100):
        lines.note(LOG, logging.INFO, "protocol error", f"10.0.0.{number}", error="x")
    lines.note(LOG, logging.INFO, "protocol error", "192.0.2.1", error="x")
    lines.note(LOG, logging.INFO, "login refused", "10.0.0.1", code="E_LOGIN")
    assert len(caplog.records) == LINES_MAX + 2
    lines.tick()
    assert summaries(caplog) == []
    now = PERIOD_SECONDS
    lines.tick()
    lines.tick()
    assert summaries(caplog) == [{"line": "protocol error", "count": 100 - LINES_MAX}]
    assert lines.suppressed == {"protocol error": 100 - LINES_MAX}
    lines.note(LOG, logging.INFO, "protocol error", "10.0.0.1", error="x")
    assert caplog.records[-1].getMessage() == "protocol error"


def test_many_networks_together_have_a_share_too(caplog: pytest.LogCaptureFixture) -> None:
    lines = LogRateLimit(lambda: 0.0)
    for number in range(1000):
        lines.note(LOG, logging.INFO, "protocol error", f"2001:db8:{number:x}::1")
    assert len(caplog.records) == LINES_ALL_MAX


def test_what_is_not_logged_anyway_is_not_counted() -> None:
    lines = LogRateLimit(lambda: 0.0)
    for _ in range(100):
        lines.note(LOG, logging.DEBUG, "detail", "10.0.0.1")
    assert not lines.suppressed


def test_garbage_from_one_address_does_not_fill_the_log(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_rate_limit, "PERIOD_SECONDS", 1e6)

    async def check() -> None:
        async with local_broker() as here:
            for _ in range(3 * LINES_MAX):
                reader, writer = await asyncio.open_connection("127.0.0.1", here.port)
                writer.write(b"\xff" * 64)
                await reader.read()
                writer.close()
            errors = here.broker.view().engine.protocol_errors
            await eventually(lambda: sum(errors.values()) == 3 * LINES_MAX)
            metrics = Metrics(here.broker.view).metrics().body
            assert f'tidings_log_lines_suppressed_total{{line="protocol error"}} {2 * LINES_MAX}' in metrics

    run(check())
    assert [one.getMessage() for one in caplog.records].count("protocol error") == LINES_MAX
