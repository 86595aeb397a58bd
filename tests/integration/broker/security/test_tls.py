import asyncio
import logging
import ssl
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from hardening.support.certificates import Authority

from tidings.broker.config.tls import TlsTable
from tidings.broker.security import users
from tidings.broker.security.access import AccessRules, Rule
from tidings.broker.security.tls import server_context
from tidings.broker.security.user_guard import UserGuard
from tidings.broker.security.users import Users
from tidings.client import connect
from tidings.errors import ConfigError, ConnectionLostError, SecurityError
from tidings.model.destination import DestinationPattern
from tidings.node.limits import BrokerLimits
from tidings.testing.local_broker import local_broker, run, run_plain


def context(certificate: Path, **options: object) -> ssl.SSLContext:
    return server_context(TlsTable(certificate=str(certificate), **options))  # type: ignore[arg-type]


def test_messages_flow_encrypted(authority: Authority) -> None:
    async def check() -> None:
        async with local_broker(tls=context(authority.sign("broker", "server.pem"))) as here:
            url = here.url.replace("tidings:", "tidings+tls:")
            async with connect(url, tls=authority.client_context()) as client:
                seen = await client.subscribe("a")
                body = bytes(range(256)) * 4000  # more than one TLS record
                await client.publish("a", {"n": 1}, body, wait=True)
                got = await seen.receive(10)
                assert got is not None
                assert (got.properties, got.body) == ({"n": 1}, body)
            with pytest.raises(ConnectionLostError, match="CERTIFICATE_VERIFY_FAILED"):
                await connect(url, reconnect=False)
            with pytest.raises(ConnectionLostError):
                await connect(here.url, reconnect=False)

    run(check())


def test_old_versions_are_refused(authority: Authority) -> None:
    made = context(authority.sign("broker", "server.pem"))
    assert made.minimum_version >= ssl.TLSVersion.TLSv1_2
    assert made.verify_mode is ssl.CERT_NONE


@pytest.mark.parametrize("require", [True, False])
def test_a_certificates_common_name_is_a_user(authority: Authority, tmp_path: Path, require: bool) -> None:
    everything = Rule("robot", DestinationPattern.parse(">"), frozenset({"publish"}))
    known = users.add(Users({}), "robot", None, frozenset())

    async def check() -> None:
        tls = context(authority.sign("broker", "server.pem"), client_ca=str(authority.path), require_client=require)
        async with local_broker(tls=tls, guard=UserGuard(known, AccessRules((everything,)), BrokerLimits())) as here:
            url = here.url.replace("tidings:", "tidings+tls:")
            mine = authority.client_context(authority.sign("robot", "robot.pem"))
            async with connect(url, tls=mine) as robot:
                await robot.publish("a", wait=True)
                assert [one.user for one in here.broker.clients.connections.values()] == ["robot"]
            stranger = authority.client_context(authority.sign("stranger", "stranger.pem"))
            with pytest.raises(SecurityError, match="E_LOGIN:"):
                await connect(url, tls=stranger, reconnect=False)
            with pytest.raises(SecurityError, match="E_LOGIN:"):
                await connect(url, tls=stranger, user="robot", reconnect=False)
            with pytest.raises(ConnectionLostError if require else SecurityError):
                await connect(url, tls=authority.client_context(), reconnect=False)
            forged = type(authority)(tmp_path, "forger").sign("robot", "forged.pem")
            with pytest.raises(ConnectionLostError):
                await connect(url, tls=authority.client_context(forged), reconnect=False)

    run(check())


def test_a_new_certificate_is_shown_while_old_connections_stay(authority: Authority) -> None:
    async def serial(port: int) -> int:
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=authority.client_context())
        certificate = writer.get_extra_info("peercert")
        writer.close()
        return int(certificate["serialNumber"], 16)

    async def check() -> None:
        first, second = authority.sign("broker", "one.pem"), authority.sign("broker", "two.pem")
        async with (
            local_broker(tls=context(first)) as here,
            connect(here.url.replace("tidings:", "tidings+tls:"), tls=authority.client_context()) as client,
        ):
            seen = await client.subscribe("a")
            before = await serial(here.port)
            here.broker.renew_tls(context(second))
            assert await serial(here.port) == before + 1
            await client.publish("a", wait=True)
            assert await seen.receive(10) is not None
            assert client.generation == 1  # still the first connection

    run(check())


def test_who_never_finishes_the_handshake_is_cut_off(authority: Authority) -> None:
    async def check() -> None:
        tls = context(authority.sign("broker", "server.pem"))
        async with local_broker(tls=tls, limits=BrokerLimits(login_seconds=0.2)) as here:
            reader, writer = await asyncio.open_connection("127.0.0.1", here.port)
            writer.write(b"\x16\x03\x01")
            try:
                assert await asyncio.wait_for(reader.read(), 30) == b""
            except ConnectionResetError:
                assert here.broker.clients.connections == {}
            writer.close()

    run(check())


HALF_A_HANDSHAKE = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc" + bytes(100)
BOTH_LOOPS = pytest.mark.parametrize("run_on", [run, run_plain])
RunOn = Callable[[Coroutine[Any, Any, None]], None]


@BOTH_LOOPS
@pytest.mark.parametrize("limits", [BrokerLimits(connections_per_address_max=2), BrokerLimits(connections_max=2)])
def test_handshakes_count_as_connections(authority: Authority, limits: BrokerLimits, run_on: RunOn) -> None:
    async def check() -> None:
        tls = context(authority.sign("broker", "server.pem"))
        async with local_broker(tls=tls, limits=limits) as here:
            url = here.url.replace("tidings:", "tidings+tls:")
            halves = []
            for _ in range(2):
                reader, writer = await asyncio.open_connection("127.0.0.1", here.port)
                writer.write(HALF_A_HANDSHAKE)
                halves.append(writer)
            reader, writer = await asyncio.open_connection("127.0.0.1", here.port)
            assert await reader.read() == b""  # at once, not after login_seconds
            writer.close()
            with pytest.raises(ConnectionLostError):
                await connect(url, tls=authority.client_context(), reconnect=False)
            assert here.broker.clients.connection_limits.refused == 2
            for writer in halves:
                writer.close()
            while here.broker.handshakes.failed.by_reason["GONE"] != 2:
                await asyncio.sleep(0.01)
            clients = [await connect(url, tls=authority.client_context()) for _ in range(2)]
            with pytest.raises(ConnectionLostError):
                await connect(url, tls=authority.client_context(), reconnect=False)
            for client in clients:
                await client.close()
            while here.broker.clients.connections:
                await asyncio.sleep(0.01)
            async with connect(url, tls=authority.client_context()) as client:
                await client.publish("a", wait=True)

    run_on(check())


@BOTH_LOOPS
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_refused_certificate_is_told_counted_and_answered(
    authority: Authority,
    tmp_path: Path,
    version: ssl.TLSVersion,
    run_on: RunOn,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(logging.getLogger("tidings"), "propagate", True)

    async def check() -> None:
        tls = context(authority.sign("broker", "server.pem"), client_ca=str(authority.path), require_client=True)
        async with local_broker(tls=tls) as here:
            url = here.url.replace("tidings:", "tidings+tls:")
            forged = Authority(tmp_path, "forger").sign("robot", "forged.pem")
            for certificate, alert in ((forged, "UNKNOWN_CA"), (None, "CERTIFICATE_REQUIRED|HANDSHAKE_FAILURE")):
                mine = authority.client_context(certificate)
                mine.maximum_version = version
                with pytest.raises(ConnectionLostError, match=alert):
                    await connect(url, tls=mine, reconnect=False)
            assert here.broker.handshakes.failed.by_reason == {
                "CERTIFICATE_VERIFY_FAILED": 1,
                "PEER_DID_NOT_RETURN_A_CERTIFICATE": 1,
            }
            told = [record.fields for record in caplog.records if record.message == "TLS handshake failed"]  # type: ignore[attr-defined]
            assert [(one["address"], one["listener"]) for one in told] == 2 * [("127.0.0.1", f"127.0.0.1:{here.port}")]
            assert "unable to get local issuer certificate" in told[0]["reason"]

    run_on(check())


def test_a_certificate_of_nobody_we_know_is_named_in_the_log(
    authority: Authority, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("tidings"), "propagate", True)

    async def check() -> None:
        tls = context(authority.sign("broker", "server.pem"), client_ca=str(authority.path))
        known = users.add(Users({}), "robot", None, frozenset())
        async with local_broker(tls=tls, guard=UserGuard(known, AccessRules(()), BrokerLimits())) as here:
            stranger = authority.client_context(authority.sign("stranger", "stranger.pem"))
            with pytest.raises(SecurityError, match="E_LOGIN:"):
                await connect(here.url.replace("tidings:", "tidings+tls:"), tls=stranger, reconnect=False)

    run(check())
    (refused,) = (record for record in caplog.records if record.message == "login refused")
    assert refused.fields["user"] == "stranger"  # type: ignore[attr-defined]


def test_unusable_files_are_named(authority: Authority, tmp_path: Path) -> None:
    good, other, junk = authority.sign("a", "a.pem"), authority.sign("b", "b.pem"), tmp_path / "junk.pem"
    junk.write_text("junk")
    for table, problem in (
        (TlsTable(certificate=str(tmp_path / "none.pem")), "none.pem cannot be read"),
        (TlsTable(certificate=str(junk)), "junk.pem is not usable"),
        (TlsTable(certificate=str(good), key=str(other)), "is not usable (KEY_VALUES_MISMATCH)"),
        (TlsTable(certificate=str(good), client_ca=str(junk)), "tls.client_ca: "),
    ):
        with pytest.raises(ConfigError) as caught:
            server_context(table)
        assert problem in str(caught.value)


def test_who_closes_while_it_connects_again_leaves_nothing_open(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    tls = context(authority.sign("broker", "server.pem"))

    async def check() -> None:
        met, left = asyncio.Event(), asyncio.Event()

        async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            met.set()
            while await reader.read(1000):
                pass
            left.set()
            writer.close()

        async with local_broker(tls=tls) as here:
            client = await connect(here.url.replace("tidings:", "tidings+tls:"), tls=authority.client_context())
        async with await asyncio.start_server(say_nothing, "127.0.0.1", here.port, ssl=tls):
            await met.wait()
            await client.close()
            assert not client.connected
            assert [task for task in asyncio.all_tasks() if "_reconnect" in repr(task)] == []
            await left.wait()

    run(check())
