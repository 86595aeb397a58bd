"""`tidings console`: what it says when it cannot do what is asked."""

import socket
import sys
from pathlib import Path

import pytest

from tidings.cli import console
from tidings.errors import UsageError
from tidings.localnet.network import LocalNetwork, LocalOptions
from tidings.overlay.topology.generate import line
from tidings.testing.local_broker import BrokerThread


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith(("nicegui", "tidings.console"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "nicegui", None)
    with pytest.raises(UsageError, match=r"pip install 'tidings\[console\]'"):
        console.console()


def test_brokers_without_users_are_not_shown_to_other_machines() -> None:
    with BrokerThread() as broker, pytest.raises(UsageError, match="would have full access"):
        console.console([broker.url], host="0.0.0.0")
    with pytest.raises(UsageError, match="cannot determine if"):
        console.console([broker.url], host="0.0.0.0")
    with pytest.raises(UsageError, match="on loopback only"):
        console.console([broker.url], host="0.0.0.0", user="me")


def test_beside_a_broker_it_takes_the_next_port(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        monkeypatch.setattr(console, "FIRST_PORT", taken.getsockname()[1])
        assert console._port("127.0.0.1") > taken.getsockname()[1]


def test_a_network_on_this_machine_is_watched_by_its_folder(tmp_path: Path) -> None:
    LocalNetwork.create(tmp_path / "net", line(3), LocalOptions(port=7400))
    assert console._urls(tmp_path / "net") == [f"tidings://127.0.0.1:{port}" for port in (7400, 7401, 7402)]


@pytest.mark.parametrize(
    "url",
    ["tidings://me:S3cret@127.0.0.1:bad", "tidinx://me:S3cret@127.0.0.1", "tidings://me:S3cret@[::1",
     "tidings://me:S3cret@\u2100.org", "me:S3cret@127.0.0.1:bad"],
)  # fmt: skip
def test_an_address_that_is_none_is_refused_at_once_without_its_password(url: str) -> None:
    with pytest.raises(UsageError, match="E_URL") as caught:
        console.console([url])
    assert "S3cret" not in str(caught.value)


def test_no_password_in_what_is_said_of_an_address() -> None:
    with BrokerThread() as broker:
        url = broker.url.replace("://", "://me:S3cret@")
        with pytest.raises(UsageError, match="would have full access") as caught:
            console.console([url], host="0.0.0.0")
        assert "S3cret" not in str(caught.value)
    with pytest.raises(UsageError, match="cannot determine if") as caught:
        console.console([url], host="0.0.0.0")
    assert "S3cret" not in str(caught.value)
