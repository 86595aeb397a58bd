"""A real broker process, by its signals."""

import asyncio
import errno
import json
import logging
import os
import re
import signal
import socket
import ssl
import urllib.request
from pathlib import Path

import pytest
from hardening.support.certificates import Authority

from tidings.broker import process
from tidings.broker.security import users
from tidings.broker.security.passwords import Cost
from tidings.broker.security.users import Users
from tidings.broker.startup import Startup, StartupOptions, prepare
from tidings.cli.broker import GATEWAYS, LAYERS, SESSIONS
from tidings.client import connect
from tidings.errors import ConfigError, ConnectionLostError, SecurityError, StoreError, TidingsError
from tidings.testing.broker_process import BrokerProcess
from tidings.testing.local_broker import run

CHEAP = Cost(n=2, r=1, p=1)
RULES = """
[[access]]
user = "alice"
operations = ["publish", "subscribe"]
destination = "{}"
"""


def save_users(path: Path, **passwords: str) -> None:
    known = Users({})
    for name, password in passwords.items():
        known = users.add(known, name, password, frozenset(), CHEAP)
    users.save(path, known)


def test_a_clean_shutdown_under_load_loses_nothing_confirmed(tmp_path: Path) -> None:
    confirmed: list[int] = []

    async def publish(broker: BrokerProcess) -> None:
        async with connect(broker.url, reconnect=False) as client:
            numbers = iter(range(1_000_000))

            async def one_after_the_other() -> None:
                for number in numbers:
                    await client.publish("queue:work", {"n": number}, b"x" * 100, persistent=True)
                    confirmed.append(number)
                    if len(confirmed) == 300:
                        broker.signal(signal.SIGTERM)

            results = await asyncio.gather(*(one_after_the_other() for _ in range(50)), return_exceptions=True)
            assert all(isinstance(result, ConnectionLostError) for result in results)

    async def consume(broker: BrokerProcess) -> set[object]:
        async with connect(broker.url) as client:
            work = await client.subscribe("queue:work")
            got: set[object] = set()
            while (delivery := await work.receive(1.0 if len(got) >= len(confirmed) else 20.0)) is not None:
                got.add(delivery.properties["n"])
            return got

    with BrokerProcess(tmp_path) as broker:
        run(publish(broker))
        assert broker.process.wait(20) == 0
        assert broker.events("stopped")
    assert len(confirmed) >= 300
    with BrokerProcess(tmp_path) as broker:
        assert run(consume(broker)) >= set(confirmed)
        assert broker.stop() == 0


def test_metrics_and_health(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as broker:

        async def traffic() -> None:
            async with connect(broker.url) as client:
                seen = await client.subscribe("a")
                await client.publish("queue:work", persistent=True)
                await client.publish("a", wait=True)
                assert await seen.receive(10) is not None
                health = json.loads(await asyncio.to_thread(broker.get, "/health"))
                assert (health["live"], health["ready"], health["store"], health["connections"]) == (
                    True,
                    True,
                    "ok",
                    1,
                )
                text = await asyncio.to_thread(broker.get, "/metrics")
                samples = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
                assert samples["tidings_messages_received_total"] == "2"
                assert samples["tidings_messages_delivered_total"] == "1"
                assert samples['tidings_connections{state="ready"}'] == "1"
                assert samples['tidings_mailbox_waiting{mailbox="queue:work"}'] == "1"
                assert float(samples["tidings_store_append_seconds_count"]) >= 1

        run(traffic())
        # The data belongs to this process alone: a second broker on it ends with a reason.
        with pytest.raises(AssertionError, match="E_STORE_LOCKED"), BrokerProcess(tmp_path):
            pass


def serial(port: int, context: ssl.SSLContext) -> int:
    """The serial number of the certificate that a listener shows to a new connection."""
    with (
        socket.create_connection(("127.0.0.1", port), 20) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as shown,
    ):
        return int((shown.getpeercert() or {})["serialNumber"], 16)  # type: ignore[arg-type]


def test_reload_of_users_rules_and_certificates(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    authority.sign("broker", "server.pem")
    save_users(tmp_path / "users.toml", alice="one", bob="secret-of-bob")
    tls = '[tls]\ncertificate = "server.pem"\n[users]\nfile = "users.toml"\n'
    context = authority.client_context()

    async def check(broker: BrokerProcess) -> None:
        url = broker.url.replace("tidings:", "tidings+tls:")
        alice = await connect(url, user="alice", password="one", tls=context)
        bob = await connect(url, user="bob", password="secret-of-bob", tls=context)
        before = await asyncio.to_thread(serial, broker.port, context)
        await alice.publish("a.b", wait=True)
        # Wrong: nothing changes, and the log says why.
        broker.configure(tls + RULES.format("a..b"), listener="tls = true")
        broker.signal(signal.SIGHUP)
        problem = (await asyncio.to_thread(broker.wait_for, "configuration not reloaded"))["problem"]
        assert "broker.toml:" in problem
        assert "access[0].destination: a level is empty" in problem
        # A new certificate, new rules for alice, another limit, and one change that must wait.
        authority.sign("broker", "server.pem")
        broker.configure(
            tls + RULES.format("c.>") + "[limits]\nconnections_max = 3\nmailboxes_max = 7\n", listener="tls = true"
        )
        broker.signal(signal.SIGHUP)
        done = await asyncio.to_thread(broker.wait_for, "reloaded")
        assert (done["users"], done["connections_ended"], done["tls"]) == (2, 1, True)
        assert {one["key"] for one in broker.events("changed")} == {"access", "limits.connections_max"}
        assert broker.events("change takes effect after a restart")[0]["key"] == "limits.mailboxes_max"
        await alice.publish("c.d", wait=True)
        with pytest.raises(SecurityError, match="E_FORBIDDEN"):
            await alice.publish("a.b", wait=True)
        assert (alice.generation, bob.generation) == (2, 1)  # only she had to connect again
        assert await asyncio.to_thread(serial, broker.port, context) == before + 1
        assert bob.connected
        # Bob's password changes: his connection ends, and the old password no longer helps.
        known = users.load(tmp_path / "users.toml")
        users.save(tmp_path / "users.toml", users.change_password(known, "bob", "another", CHEAP))
        broker.signal(signal.SIGHUP)
        await asyncio.to_thread(broker.wait_for, "reloaded", 2)
        while bob.connected:
            await asyncio.sleep(0.01)
        with pytest.raises(SecurityError, match="E_LOGIN:"):
            await connect(url, user="bob", password="secret-of-bob", tls=context, reconnect=False)
        await (await connect(url, user="bob", password="another", tls=context)).close()
        assert alice.generation == 2
        await alice.close()
        await bob.close()

    with BrokerProcess(tmp_path, tls + RULES.format("a.>"), listener="tls = true") as broker:
        run(check(broker))
        assert broker.stop() == 0
        assert not any(secret in broker.text() for secret in ("secret-of-bob", "another", "scrypt", "PRIVATE"))


# --- what would be unsafe or cannot work is refused before anything is opened ---------------------------------------


def check_file(tmp_path: Path, text: str) -> Startup:
    path = tmp_path / "broker.toml"
    path.write_text(text)
    return prepare(StartupOptions(path), tuple(SESSIONS))


def test_certificates_of_metrics_and_links_are_renewed(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    authority.sign("broker-1", "server.pem")
    pages = tmp_path / "broker.toml"
    network = '[network]\nname = "n"\nport = 0\ncertificate = "{}"\nca = "authority.pem"\n'
    tls = '[tls]\ncertificate = "{}"\n'

    class Encrypted(BrokerProcess):
        def configure(self, more: str, *, listener: str = "") -> None:
            super().configure(more, listener=listener)
            pages.write_text(pages.read_text().replace("[metrics]", "[metrics]\ntls = true"))

    with Encrypted(tmp_path, tls.format("server.pem") + network.format("server.pem")) as broker:
        ports = [broker.events(name)[-1]["port"] for name in ("metrics", "links")]
        url = f"https://127.0.0.1:{ports[0]}/health"
        with urllib.request.urlopen(url, timeout=20, context=authority.client_context()) as answer:
            assert json.loads(answer.read())["ready"] is True
        mine = authority.client_context(tmp_path / "server.pem")
        before = [serial(port, mine) for port in ports]
        broker.configure(tls.format("server.pem") + network.format("none.pem"))
        broker.signal(signal.SIGHUP)
        problem = broker.wait_for("configuration not reloaded")["problem"]
        assert re.match(rf"{pages}:\d+: network.certificate, network.key: .*none.pem cannot be read", problem)
        assert [serial(port, mine) for port in ports] == before
        authority.sign("broker-1", "another.pem")
        broker.configure(tls.format("another.pem") + network.format("another.pem"))
        broker.signal(signal.SIGHUP)
        broker.wait_for("reloaded")
        assert [serial(port, mine) for port in ports] == [before[0] + 1, before[1] + 1]
        assert {one["key"] for one in broker.events("changed")} == {"tls.certificate", "network.certificate"}
        assert broker.stop() == 0


def test_other_machines_are_let_in_only_with_users_or_on_purpose(tmp_path: Path) -> None:
    exposed = "[[listeners]]\nhost = '0.0.0.0'\n"
    with pytest.raises(ConfigError) as caught:
        check_file(tmp_path, exposed)
    assert "tidings user add" in str(caught.value)
    assert "allow_anonymous = true" in str(caught.value)
    assert check_file(tmp_path, exposed + "[users]\nallow_anonymous = true").users is None
    (tmp_path / "tidings-data").mkdir()
    users.save(tmp_path / "tidings-data" / "users.toml", Users({}))  # nobody in it: nobody gets in, which is safe
    prepared = check_file(tmp_path, exposed)
    assert prepared.users is not None
    assert len(prepared.users) == 0


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (RULES.format("a"), "access rules need users"),
        ("[tls]\ncertificate = 's.pem'\nclient_ca = 'c.pem'", "certificates name users, and none are configured"),
        ("[users]\nfile = 'none.toml'", "none.toml: cannot be read"),
        ("[[listeners]]\ntls = true\n[tls]\ncertificate = 'none.pem'\n", "none.pem cannot be read"),
    ],
)
def test_what_cannot_work_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        check_file(tmp_path, text)


def test_a_second_signal_ends_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[int] = []
    monkeypatch.setattr(os, "_exit", ended.append)
    running = process.BrokerMain(StartupOptions(data=str(tmp_path)), SESSIONS, None, LAYERS, GATEWAYS)
    running._stop_requested(signal.SIGTERM)
    assert ended == []
    running._stop_requested(signal.SIGTERM)
    assert ended == [1]


def test_a_port_that_is_taken_ends_with_a_reason(tmp_path: Path) -> None:
    async def occupied() -> None:
        server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        path = tmp_path / "broker.toml"
        path.write_text(f"[[listeners]]\nport = {port}\n[metrics]\nenabled = false")
        with pytest.raises(
            TidingsError, match=r"E_LISTEN: cannot listen on 127.0.0.1 port .*choose another address or port"
        ):
            await process.BrokerMain(StartupOptions(path), SESSIONS, None, LAYERS, GATEWAYS).run()
        server.close()

    run(occupied())


@pytest.mark.usefixtures("own_logging")
@pytest.mark.parametrize("by_store", [True, False])
def test_too_few_files_are_told_with_a_remedy(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], by_store: bool
) -> None:
    def refuse(*_: object) -> None:
        try:
            raise OSError(errno.EMFILE, "Too many open files")
        except OSError as error:
            if not by_store:
                raise
            raise StoreError("E_STORE_IO", f"cannot open it: {error}") from None

    monkeypatch.setattr(process, "BrokerMain", refuse)
    monkeypatch.setattr(process, "raise_file_limit", lambda: None)
    assert process.run(StartupOptions(), SESSIONS) == 1
    said = capfd.readouterr().err
    assert ("E_STORE_IO" if by_store else "E_FILES") in said
    assert "ulimit -n" in said


def test_a_data_directory_that_cannot_be_made_is_told_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "broker.toml"
    path.write_text("[broker]\nname = 'a'\ndata = 'broker.toml/data'\n")

    async def start() -> None:
        await process.BrokerMain(StartupOptions(path), SESSIONS, None, LAYERS, GATEWAYS).run()

    with pytest.raises(ConfigError, match=r"broker\.toml:3: broker\.data: .* cannot be created"):
        run(start())


@pytest.mark.parametrize("tls", [True, False])
def test_who_is_reached_without_tls_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, tls: bool
) -> None:
    monkeypatch.setattr(logging.getLogger("tidings"), "propagate", True)
    Authority(tmp_path).sign("broker", "server.pem")
    save_users(tmp_path / "users.toml", alice="one")
    path, switch = tmp_path / "broker.toml", f"host = '0.0.0.0'\ntls = {str(tls).lower()}\n"
    text = "[users]\nfile = 'users.toml'\n[tls]\ncertificate = 'server.pem'\n[metrics]\nenabled = false\n"
    path.write_text(
        f"{text}[[listeners]]\n[[listeners]]\nport = 1\n{switch}[console]\nenabled = true\nport = 2\n{switch}"
    )
    prepare(StartupOptions(path), tuple(SESSIONS)).guard()
    told = [one.fields["listener"] for one in caplog.records if "no TLS" in one.message]  # type: ignore[attr-defined]
    assert told == ([] if tls else ["0.0.0.0:1", "0.0.0.0:2"])
