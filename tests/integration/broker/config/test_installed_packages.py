"""A broker without optional packages: it runs with the defaults, and refuses a configuration that needs them."""

from pathlib import Path

import pytest

from tidings.broker import tracking_thread
from tidings.broker.config import installed_packages as installed
from tidings.broker.startup import StartupOptions, prepare
from tidings.broker.tracking_thread import TrackingOptions
from tidings.cli import broker as command
from tidings.client import connect
from tidings.errors import ConfigError
from tidings.segments import run_markers
from tidings.testing.local_broker import local_broker, run
from tidings.tracking.recording.recorder import TrackingSettings

PROTOCOLS = ("native", "stomp", "websocket", "amqp", "mqtt")


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (command, installed, tracking_thread):
        monkeypatch.setattr(module, "installed", lambda package: False)


def test_without_scipy_the_capacity_is_not_estimated(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO"):
        assert command._capacity_monitor() is None
    assert "pip install 'tidings[capacity]'" in str(caplog.records[0].__dict__)


def test_the_defaults_need_no_optional_package(tmp_path: Path) -> None:
    found = prepare(StartupOptions(data=str(tmp_path)), PROTOCOLS).configuration
    assert [listener.protocol for listener in found.listeners] == ["native", "stomp", "amqp", "mqtt"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "[admission]\nwaiting_ms_max = 5\n",
            r"admission.waiting_ms_max: needs scipy.* install 'tidings\[capacity\]'",
        ),
        ("console = true\n", r"console.enabled: needs nicegui.*pip install 'tidings\[console\]'"),
        ('[tracking]\nfolder = "records"\n', r"tracking.folder: needs pyarrow.*pip install 'tidings\[segments\]'"),
    ],
)
def test_what_needs_a_package_that_is_not_there_is_refused(text: str, expected: str, tmp_path: Path) -> None:
    path = tmp_path / "broker.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=expected):
        prepare(StartupOptions(path), PROTOCOLS)


def test_histories_of_an_earlier_broker_are_not_ignored(tmp_path: Path) -> None:
    folder = tmp_path / "tracking" / "attachments"
    folder.mkdir(parents=True)
    (folder / "1.parquet").touch()
    with pytest.raises(ConfigError, match=r"stored histories.*needs pyarrow"):
        prepare(StartupOptions(data=str(tmp_path)), PROTOCOLS)


def test_without_pyarrow_a_message_is_traced_from_memory(tmp_path: Path) -> None:
    """Also once it has left the filters that are being filled; that the broker ran is known to those who come later."""

    async def work() -> None:
        options = TrackingOptions(TrackingSettings(persist_ms=1), tmp_path)
        async with local_broker(tracking=options) as (broker, url), connect(url) as client:
            await client.subscribe("a")
            receipts = [await client.publish("a", {"n": n}, persistent=True) for n in range(3)]
            while not broker.tracking._archive.entries:
                await client.publish("a")
            for receipt in receipts:
                path = await client.trace(str(receipt.message_id))
                assert [hop.broker for hop in path.hops] == [1]
                assert path.hops[0].subscribers

    run(work())
    assert not list(tmp_path.rglob("*.parquet"))
    assert len(run_markers.signed(tmp_path, 1)) == 1
