"""A broker of a network that arranges itself has a number of its own, and keeps it."""

import asyncio
import os
from dataclasses import replace
from pathlib import Path

import pytest

from tidings.broker.config.broker_id import FILE, NUMBER_MAX, keep
from tidings.broker.config.changes import changes
from tidings.broker.process import BrokerMain
from tidings.broker.startup import Startup, StartupOptions, prepare
from tidings.cli.broker import SESSIONS
from tidings.errors import ConfigError

PAN = "overlay = 'pan'\n"
FOUND = StartupOptions(join="")


def prepared(folder: Path, *, broker: str = "", network: str = PAN, options: StartupOptions | None = None) -> Startup:
    path = folder / "broker.toml"
    path.write_text(f"[broker]\ndata = 'data'\n{broker}\n[network]\nname = 'n'\ninsecure = true\n{network}")
    return prepare(replace(options or StartupOptions(), config=path), tuple(SESSIONS))


def number(one: Startup) -> int:
    assert one.peers is not None
    assert one.configuration.settings().broker_id == one.peers.network.router == one.configuration.broker.id
    return one.configuration.broker.id


def stored(folder: Path, text: str) -> None:
    (folder / "data").mkdir()
    (folder / "data" / FILE).write_text(text)


@pytest.mark.parametrize(
    ("network", "options"), [(PAN, StartupOptions()), ("", FOUND), ("", StartupOptions(join="127.0.0.1:1"))]
)
def test_a_number_is_drawn_but_not_written_before_the_broker_runs(
    tmp_path: Path, network: str, options: StartupOptions
) -> None:
    first, second = (prepared(tmp_path, network=network, options=options) for _ in range(2))
    assert first.drawn
    assert 1 < number(first) <= NUMBER_MAX
    assert number(second) != number(first)
    assert not (tmp_path / "data").exists()


def test_a_broker_that_opens_its_store_keeps_its_number(tmp_path: Path) -> None:
    prepared(tmp_path)
    process = BrokerMain(StartupOptions(tmp_path / "broker.toml"), SESSIONS)
    assert asyncio.run(process._begin_tenure())
    process._open_store().close()
    again = prepared(tmp_path)
    assert not again.drawn
    assert number(again) == process.configuration.broker.id
    assert list(changes(process.configuration, again.configuration)) == []  # a reload has nothing to tell
    assert number(prepared(tmp_path, network="", options=FOUND)) == number(again)


@pytest.mark.parametrize(("network", "options"), [(PAN, StartupOptions()), ("", FOUND)])
@pytest.mark.parametrize("configured", [1, 7])
def test_a_number_that_is_configured_counts(
    tmp_path: Path, network: str, options: StartupOptions, configured: int
) -> None:
    stored(tmp_path, "5\n")
    found = prepared(tmp_path, broker=f"id = {configured}", network=network, options=options)
    assert (number(found), found.drawn) == (configured, False)


def test_where_links_are_configured_no_number_is_drawn(tmp_path: Path) -> None:
    stored(tmp_path, "5\n")
    found = prepared(tmp_path, network="peers = [{router = 2}]")
    assert (number(found), found.drawn) == (1, False)


def test_a_peer_may_have_any_number_before_this_broker_has_one(tmp_path: Path) -> None:
    prepared(tmp_path, network=PAN + "peers = [{router = 1}, {address = '127.0.0.1:1'}]")
    with pytest.raises(ConfigError, match="1 is this broker's own id"):
        prepared(tmp_path, broker="id = 1", network=PAN + "peers = [{router = 1}]")


@pytest.mark.parametrize("text", ["", "0", "-1", "4294967296", "²", "one", "1 2", "9" * 5000])
def test_what_is_not_a_number_in_the_file_is_refused(tmp_path: Path, text: str) -> None:
    stored(tmp_path, text)
    with pytest.raises(ConfigError, match=r"data/broker-id: not a broker number"):
        prepared(tmp_path)


def test_the_file_is_whole_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def synced(_: int) -> None:
        seen.append({path.name: path.read_text() for path in tmp_path.iterdir()})

    monkeypatch.setattr(os, "fsync", synced)
    keep(tmp_path, 7)
    assert seen == [{f"{FILE}.new": "7\n"}, {FILE: "7\n"}]  # the file, then its name


def test_a_number_that_cannot_be_written_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ConfigError, match=r"cannot write this broker.s number \(No space left on device\)"):
        keep(tmp_path, 7)
    assert not (tmp_path / FILE).exists()
