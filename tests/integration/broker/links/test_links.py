"""Brokers linked over real sockets: clients at one get what clients at another publish."""

import asyncio
import logging
import ssl
import subprocess
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import uvloop
from hardening.network import flaps
from hardening.support.certificates import Authority
from hardening.support.links import QUICK, SECRET, BrokerNetwork, eventually

from tidings.broker import log_rate_limit
from tidings.broker.http.metrics import Metrics
from tidings.broker.http.network_status import status
from tidings.broker.links.dialer import dial
from tidings.broker.links.link_connection import LinkConnection
from tidings.broker.links.links import BrokerLinks, LinkSettings
from tidings.broker.log_rate_limit import LINES_MAX
from tidings.broker.security.tls import link_contexts
from tidings.broker.server import Broker
from tidings.client import connect
from tidings.client.client import Client
from tidings.client.subscription import Subscription
from tidings.errors import UsageError
from tidings.model.codec import encode_frame
from tidings.node.network.link_secret import Handshake
from tidings.overlay import effects as fx
from tidings.overlay.link.greeting import Greeting, Refuse
from tidings.routing.bdrp.scheme import BdrpOptions
from tidings.routing.control.codec import encode
from tidings.routing.control.flood import FloodOptions

SQUARE = [(1, 2), (2, 3), (3, 4), (4, 1), (1, 3)]


async def drain(subscription: Subscription, count: int) -> list[int]:
    """So many, and then no more."""
    got: list[int] = []
    for _ in range(count):
        delivery = await subscription.receive(20.0)
        assert delivery is not None, f"{len(got)} of {count}"
        got.append(int(delivery.properties["n"]))
    await asyncio.sleep(0.1)
    assert subscription.receive_nowait() is None
    return sorted(got)


@pytest.mark.parametrize("edges", [[(1, 2), (2, 3), (3, 4)], SQUARE, [(1, 2), (2, 1), (2, 3), (3, 1), (1, 1)]])
def test_a_message_reaches_matching_subscribers_elsewhere_once(tmp_path: Path, edges: list[tuple[int, int]]) -> None:
    async def check() -> None:
        async with BrokerNetwork(tmp_path, edges) as network:
            clients = {router: await connect(network.url(router)) for router in network.routers}
            subscriptions = {
                router: await client.subscribe("ticks.>", selector=f"n >= {router}")
                for router, client in clients.items()
            }
            await eventually(network.known)
            for n in range(1, 6):
                await clients[1].publish("ticks.a", {"n": n}, persistent=n % 2 == 0)
            for router, subscription in subscriptions.items():
                assert await drain(subscription, 6 - router) == list(range(router, 6))
            for client in clients.values():
                await client.close()

    asyncio.run(check())


def test_after_an_unexpected_error_it_dials_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failed = set()

    async def once(make: Callable[[], LinkConnection], *arguments: Any) -> None:
        connection = make()
        if connection.links not in failed:
            failed.add(connection.links)
            raise ZeroDivisionError
        await dial(make, *arguments)

    async def check() -> None:
        async with BrokerNetwork(tmp_path, [(1, 2)]) as network:
            await eventually(network.known)

    monkeypatch.setattr("tidings.broker.links.links.dial", once)
    asyncio.run(check())
    assert failed


def test_a_broker_that_is_away_gets_persistent_messages_when_it_is_back(tmp_path: Path) -> None:
    async def check() -> None:
        async with BrokerNetwork(tmp_path, [(1, 2), (2, 3)]) as network:
            reader = await connect(network.url(3), client_id="reader")
            await reader.subscribe("ticks.>", durable="audit")
            await eventually(network.known)
            await reader.close()
            await network.stop(3)
            async with connect(network.url(1)) as writer:
                for n in range(20):
                    receipt = await writer.publish("ticks.a", {"n": n}, persistent=True)
                await receipt.confirmed()
            await network.start(3)
            reader = await connect(network.url(3), client_id="reader")
            audit = await reader.subscribe("ticks.>", durable="audit")
            assert await drain(audit, 20) == list(range(20))
            await reader.close()

    asyncio.run(check())


def test_a_message_that_takes_longer_than_a_link_may_be_silent_gets_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pings and their answers wait behind it, in one direction or the other."""
    quicker = replace(QUICK, heartbeat_ms=100, suspect_ms=250, dead_ms=600)
    monkeypatch.setattr("hardening.support.links.QUICK", quicker)

    async def check() -> None:
        async with (
            BrokerNetwork(tmp_path, [(1, 2)], wired=True) as network,
            connect(network.url(2), client_id="reader") as reader,
            connect(network.url(1)) as writer,
        ):
            audit = await reader.subscribe("ticks.>", durable="audit")
            await eventually(network.known)
            network.wires[1, 2].bytes_s = 1_000_000
            await writer.publish("ticks.a", {"n": 1}, bytes(2_000_000), persistent=True)
            assert await drain(audit, 1) == [1]

    asyncio.run(check())


def test_what_waits_for_a_broker_that_is_given_up_is_counted_and_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was confirmed: it must not vanish without a word."""
    monkeypatch.setattr(logging.getLogger("tidings"), "propagate", True)
    bdrp, flood = BdrpOptions(retain_ms=0), FloodOptions(lifetime_ms=2000, renew_ms=500)

    async def check() -> None:
        async with BrokerNetwork(tmp_path, [(1, 2)], bdrp=bdrp, flood=flood) as network:
            async with connect(network.url(2), client_id="reader") as reader:
                await reader.subscribe("ticks.>", durable="audit")
                await eventually(network.known)
            await network.stop(2)
            async with connect(network.url(1)) as writer:
                for n in range(3):
                    await (await writer.publish("ticks.a", {"n": n}, persistent=True)).confirmed()
            one = network.brokers[1]
            assert status(one.view())["in_transit"] == 3
            await eventually(lambda: status(one.view())["in_transit"] == 0)
            assert status(one.view())["counts"]["abandoned"] == 3
            assert 'tidings_copies_total{fate="abandoned"} 3' in Metrics(one.view).metrics().body

    asyncio.run(check())
    told = [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]
    assert "E_BROKER_GIVEN_UP: broker 2 is given up: 3 persistent messages for it are dropped" in told


def test_the_log_says_why_a_link_was_lost(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("tidings"), "propagate", True)
    caplog.set_level(logging.INFO, "tidings")

    async def check() -> None:
        async with BrokerNetwork(tmp_path, [(1, 2)]) as network:
            await eventually(lambda: network.linked(1, 2))
            await network.stop(2)
            one = network.brokers[1]
            await eventually(lambda: not status(one.view())["links"])

    asyncio.run(check())
    assert "LINK_DOWN: router 2: goodbye: shutting down" in [one.getMessage() for one in caplog.records]


def test_a_link_that_is_cut_under_load_loses_no_persistent_message(tmp_path: Path) -> None:
    async def load(network: BrokerNetwork, writer: Client) -> None:
        links = network.brokers[1].links
        assert isinstance(links, BrokerLinks)
        receipts = []
        for n in range(300):
            receipts.append(await writer.publish("ticks.a", {"n": n}, persistent=True))
            if n % 60 == 30:  # whichever way it goes, that connection dies
                links.cut()
                await asyncio.sleep(0.05)
        for receipt in receipts:
            await receipt.confirmed()

    async def check() -> None:
        async with (
            BrokerNetwork(tmp_path, [(1, 2), (2, 3), (3, 4), (4, 1)]) as network,
            connect(network.url(1)) as writer,
            connect(network.url(3), client_id="reader") as reader,
        ):
            audit = await reader.subscribe("ticks.>", durable="audit")
            await eventually(network.known)
            await load(network, writer)
            assert await drain(audit, 300) == list(range(300))

    asyncio.run(check())


def test_links_that_flap_and_a_partition_lose_nothing_persistent(tmp_path: Path) -> None:
    found = asyncio.run(flaps.run(tmp_path, 4.0, pause=(0.05, 0.5)))
    assert found.published > 20
    assert found.cuts > 3


@pytest.mark.parametrize(
    "said",
    [
        encode_frame(0x41, bytes(4) + b"x" * 40),  # a message, before any greeting
        encode_frame(0x10, bytes(50)),
        b"\xff" * 64,
    ],
)
def test_what_makes_no_sense_ends_the_link_and_is_no_internal_error(
    tmp_path: Path, said: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """The kernel's errors about a link were once unpacked wrongly, and each became an internal error."""

    async def check() -> None:
        async with BrokerNetwork(tmp_path, [(1, 2)]) as network:
            await eventually(lambda: network.linked(1, 2))
            reader, writer = await asyncio.open_connection("127.0.0.1", network.link_ports[1])
            writer.write(said)
            async with asyncio.timeout(30):
                while await reader.read(1 << 16):
                    pass
            writer.close()
            assert network.linked(1, 2)

    asyncio.run(check())
    assert [one.getMessage() for one in caplog.records if one.levelno >= logging.ERROR] == []


def test_who_does_not_know_the_secret_stays_outside(tmp_path: Path) -> None:
    async def check() -> None:
        network = BrokerNetwork(tmp_path, [(1, 2), (1, 3)])
        async with network:
            await network.stop(3)
            await network.start(3, LinkSettings(port=network.link_ports[3], secret=b"another secret, made up"))
            await eventually(lambda: network.linked(1, 2))
            await asyncio.sleep(0.5)
            assert not network.linked(1, 3)
            links = network.brokers[3].engine.node.network
            assert links is not None
            assert list(links.links.peers()) == []

    asyncio.run(check())


@pytest.mark.parametrize("turns", range(5))
def test_a_dial_that_is_given_up_while_it_succeeds_leaves_no_connection(tmp_path: Path, turns: int) -> None:
    """Whichever turn of the event loop it is. In uvloop, as in a broker's process, such a one is never lost."""

    async def check() -> None:
        async with BrokerNetwork(tmp_path, [(1, 2)]) as network:
            links = network.brokers[1].links
            assert isinstance(links, BrokerLinks)
            await eventually(lambda: network.linked(1, 2))
            links.cut()
            while not links._dialling:
                await asyncio.sleep(0)
            (name,) = links._dialling
            for _ in range(turns):
                await asyncio.sleep(0)
            links._close(name, "given up")
            assert name not in links._dialling
            for _ in range(10):
                await asyncio.sleep(0)
                assert name not in links._connections
            links._tell(fx.Lost(name, "given up"))
            await eventually(lambda: network.linked(1, 2))

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(check())


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> Callable[..., bool]:
    """Whether there is a warning with all of these words."""
    monkeypatch.setattr(logging.getLogger("tidings"), "propagate", True)
    caplog.set_level(logging.INFO, "tidings")

    def found(*words: str) -> bool:
        lines = [
            f"{one.getMessage()} {vars(one).get('fields')}" for one in caplog.records if one.levelname == "WARNING"
        ]
        return any(all(word in line for word in words) for line in lines)

    return found


@pytest.mark.parametrize("knows", [1, 2])
def test_both_ends_say_that_only_one_has_a_secret(tmp_path: Path, told: Callable[..., bool], knows: int) -> None:
    def links(router: int, port: int) -> LinkSettings:
        return LinkSettings(port=port, secret=SECRET) if router == knows else LinkSettings(port=port, insecure=True)

    async def check() -> None:
        async with BrokerNetwork(tmp_path, [(1, 2)], links=links) as network:
            dialler = f"127.0.0.1:{network.link_ports[2]}"
            await eventually(lambda: told("E_LINK_SECRET", dialler) and told("E_LINK_SECRET", "from:127.0.0.1:"))

    asyncio.run(check())


def test_both_ends_say_what_tls_finds_wrong(tmp_path: Path, told: Callable[..., bool]) -> None:
    """1 dials 2, whose certificate another authority has signed; 3, whose links are plain, dials 1."""
    ours, theirs = Authority(tmp_path, "ours"), Authority(tmp_path, "theirs")

    def links(router: int, port: int) -> LinkSettings:
        if router == 3:
            return LinkSettings(port=port, secret=SECRET)
        file = str((ours if router == 1 else theirs).sign(f"broker-{router}", f"{router}.pem"))
        accept, dial = link_contexts(file, "", str(ours.path))
        return LinkSettings(port=port, certificates=True, tls_accept=accept, tls_dial=dial)

    async def check() -> None:
        async with BrokerNetwork(tmp_path, [(1, 2), (3, 1)], links=links) as network:
            one, two = network.link_ports[1], network.link_ports[2]
            await eventually(lambda: told("E_LINK_TLS", f"to:127.0.0.1:{two}", "certificate verify failed"))
            await eventually(lambda: told("TLS handshake failed", f"127.0.0.1:{two}", "unknown ca"))
            await eventually(lambda: told("E_LINK_TLS", f"to:127.0.0.1:{one}", "the peer speaks TLS"))
            await eventually(lambda: told("TLS handshake failed", f"127.0.0.1:{one}", "wrong version number"))

    asyncio.run(check())


def test_a_plain_acceptor_says_that_the_peer_speaks_tls(tmp_path: Path, told: Callable[..., bool]) -> None:
    async def check() -> None:
        async with BrokerNetwork(tmp_path, [(1, 2)]) as network:
            reader, writer = await asyncio.open_connection("127.0.0.1", network.link_ports[1])
            writer.write(bytes((22, 3, 1, 2, 0, 1, 0, 1, 252)))
            while await reader.read(1 << 16):
                pass
            writer.close()
            await eventually(lambda: told("E_LINK_TLS", "from:", "the peer speaks TLS"))

    asyncio.run(check())


def test_strangers_do_not_fill_the_log(
    tmp_path: Path, told: Callable[..., bool], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_rate_limit, "PERIOD_SECONDS", 1e6)
    said = encode_frame(0x40, encode(Refuse("E_LINK_NUMBER", "give this broker another id")))

    async def check() -> None:
        async with BrokerNetwork(tmp_path, [(1, 2)]) as network:
            for number in range(2 * LINES_MAX):
                reader, writer = await asyncio.open_connection("127.0.0.1", network.link_ports[1])
                writer.write(said if number % 2 else b"\xff" * 64)
                while await reader.read(1 << 16):
                    pass
                writer.close()
            await eventually(lambda: network.linked(1, 2))

    asyncio.run(check())
    lines = [one.getMessage() for one in caplog.records if "from:" in one.getMessage() and one.levelno > logging.DEBUG]
    assert len(lines) == LINES_MAX
    assert not told("another id")


def test_a_greeting_is_looked_at_once_the_peer_has_proven_itself(tmp_path: Path, told: Callable[..., bool]) -> None:
    """So that who does not know the secret hears that, and not in what else it differs."""

    async def check() -> None:
        async with BrokerNetwork(tmp_path, [(1, 2)]) as network:
            reader, writer = await asyncio.open_connection("127.0.0.1", network.link_ports[1])
            writer.write(encode_frame(0x42, bytes(32)) + encode_frame(0x40, encode(Greeting("elsewhere", 9, 1, 1))))
            writer.write(encode_frame(0x43, bytes(32)))
            heard = b""
            while data := await reader.read(1 << 16):
                heard += data
            writer.close()
            assert b"E_LINK_SECRET" in heard
            assert b"E_LINK_NETWORK" not in heard

    asyncio.run(check())
    assert told("E_LINK_SECRET", "does not know the network's secret")


def certificate(folder: Path, name: str) -> None:
    """A certificate of this name and its key, signed by the folder's own authority."""
    authority, key = folder / "ca.pem", folder / "ca.key"
    openssl = partial(subprocess.run, check=True, capture_output=True, timeout=60)
    new = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    if not authority.exists():
        openssl(["openssl", "req", "-x509", *new, "-keyout", key, "-out", authority, "-subj", "/CN=test authority"])
    paths = folder / f"{name}.pem", folder / f"{name}.key"
    signed = ["-CA", authority, "-CAkey", key, "-addext", "subjectAltName=IP:127.0.0.1"]
    signed += ["-addext", "basicConstraints=critical,CA:FALSE", "-subj", f"/CN={name}"]
    openssl(["openssl", "req", "-x509", *new, *signed, "-keyout", paths[1], "-out", paths[0]])


def context(folder: Path, name: str, purpose: ssl.Purpose) -> ssl.SSLContext:
    found = ssl.create_default_context(purpose, cafile=folder / "ca.pem")
    found.load_cert_chain(folder / f"{name}.pem", folder / f"{name}.key")
    found.verify_mode = ssl.CERT_REQUIRED
    return found


def test_certificates_say_which_broker_it_is(tmp_path: Path) -> None:
    """3 shows the certificate of 2: it is in the network's hands, and still not who it says."""

    def links(router: int, port: int) -> LinkSettings:
        name = f"broker-{min(router, 2)}"
        accept, dial = (context(tmp_path, name, one) for one in (ssl.Purpose.CLIENT_AUTH, ssl.Purpose.SERVER_AUTH))
        return LinkSettings(port=port, certificates=True, tls_accept=accept, tls_dial=dial)

    for name in ("broker-1", "broker-2"):
        certificate(tmp_path, name)

    async def check() -> None:
        network = BrokerNetwork(tmp_path, [(1, 2), (3, 1)], links=links)
        async with network:
            await eventually(lambda: network.linked(1, 2))
            await asyncio.sleep(0.5)
            assert not network.linked(1, 3)
            async with connect(network.url(2)) as reader, connect(network.url(1)) as writer:
                ticks = await reader.subscribe("ticks.>")
                one = network.brokers[1].engine.node.network
                assert one is not None
                await eventually(lambda: bool(one.scheme.predicates.get(2)))
                await writer.publish("ticks.a", {"n": 1})
                assert await drain(ticks, 1) == [1]

    asyncio.run(check())


def test_certificates_of_links_are_renewed_without_ending_links(tmp_path: Path) -> None:
    """Even if another authority signs them from now on."""
    old, new = Authority(tmp_path, "old"), Authority(tmp_path, "new")

    def links(router: int, port: int, authority: Authority = old) -> LinkSettings:
        file = str(authority.sign(f"broker-{router}", f"{router}.pem"))
        accept, dial = link_contexts(file, "", str(authority.path))
        return LinkSettings(port=port, certificates=True, tls_accept=accept, tls_dial=dial)

    def issuers(broker: Broker) -> list[str]:
        assert isinstance(broker.links, BrokerLinks)
        transports = [one._transport for one in broker.links._connections.values() if one._transport is not None]
        return [str(one.get_extra_info("peercert")["issuer"][0][0][1]) for one in transports]

    async def check() -> None:
        async with BrokerNetwork(tmp_path, [(1, 2)], links=links) as network:
            await eventually(lambda: network.linked(1, 2))
            brokers = [network.brokers[1], network.brokers[2]]
            before = [list(broker.links._connections) for broker in brokers]  # type: ignore[union-attr]
            for router, broker in network.brokers.items():
                assert isinstance(broker.links, BrokerLinks)
                broker.links.renew(links(router, 0, new))
            assert network.linked(1, 2)
            assert [list(broker.links._connections) for broker in brokers] == before  # type: ignore[union-attr]
            assert [issuers(broker) for broker in brokers] == [["old"], ["old"]]
            brokers[0].links.cut()  # type: ignore[union-attr]
            await eventually(lambda: [issuers(broker) for broker in brokers] == [["new"], ["new"]])
            await eventually(lambda: network.linked(1, 2))

    asyncio.run(check())


def test_proofs_do_not_fit_other_roles_challenges_or_secrets() -> None:
    here, there = Handshake(b"s" * 16, True, b"a" * 32), Handshake(b"s" * 16, False, b"b" * 32)
    proof = there.answer(here.challenge)
    assert here.check(proof, there.challenge)
    assert not here.check(proof, b"c" * 32)
    assert not there.check(proof, here.challenge)
    assert not Handshake(b"t" * 16, True, b"a" * 32).check(proof, there.challenge)
    assert b"s" * 16 not in repr(here).encode()


def test_links_are_never_open_by_mistake() -> None:
    with pytest.raises(UsageError, match="E_LINK_OPEN"):
        LinkSettings()
    with pytest.raises(UsageError, match="E_LINK_SECRET"):
        LinkSettings(secret=b"short")
    with pytest.raises(UsageError, match="E_LINK_TLS"):
        LinkSettings(certificates=True)
    assert LinkSettings(insecure=True).port == 7301
