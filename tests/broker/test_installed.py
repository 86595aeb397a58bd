"""A broker without optional packages: it runs with the defaults, and refuses a configuration that needs them."""

from pathlib import Path

import pytest

from tidings.broker import installed
from tidings.broker.prepared import Options, prepare
from tidings.cli import broker as command
from tidings.errors import ConfigError


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (installed, command):
        monkeypatch.setattr(module, "installed", lambda package: False)


@pytest.mark.usefixtures("bare")
def test_without_scipy_the_capacity_is_not_estimated(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO"):
        assert command._capacity_monitor() is None
    assert "pip install 'tidings[capacity]'" in str(caplog.records[0].__dict__)


@pytest.mark.usefixtures("bare")
def test_admission_control_without_scipy_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "broker.toml"
    path.write_text("[admission]\nwaiting_ms_max = 5\n")
    with pytest.raises(ConfigError, match=r"admission.waiting_ms_max: needs scipy.*pip install 'tidings\[capacity\]'"):
        prepare(Options(path), ("native", "stomp", "websocket", "amqp"))
