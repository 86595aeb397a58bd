"""Clients with several addresses: which broker they connect to, first and after a loss."""

import asyncio
import urllib.request
from pathlib import Path

import pytest

import tidings
from tidings.broker.config.load import parse
from tidings.broker.security import users
from tidings.broker.security.passwords import Cost
from tidings.broker.security.users import Users
from tidings.client.broker_url import parse_url
from tidings.errors import ConfigError, ConnectionLostError, SecurityError, UsageError
from tidings.localnet.ports import free_ports
from tidings.testing.broker_process import BrokerProcess
from tidings.testing.local_broker import local_broker, run


def joined(*urls: str) -> str:
    return "tidings://" + ",".join(url.removeprefix("tidings://") for url in urls)


async def number(ticks: tidings.Subscription) -> object:
    delivery = await ticks.receive(10)
    assert delivery is not None
    return delivery.properties["n"]


@pytest.mark.parametrize("url", ["tidings://a,,b", "tidings://a,b:0", "tidings://a,b:x", "tidings://,", "http://a,b"])
def test_malformed_lists_are_refused(url: str) -> None:
    with pytest.raises(UsageError, match="E_URL"):
        parse_url(url)


def test_too_many_addresses_are_refused() -> None:
    assert len(parse_url(",".join(["a"] * 64)).addresses) == 64
    with pytest.raises(UsageError, match="at most 64"):
        parse_url(",".join(["a"] * 65))


def test_login_and_addresses_with_colons_are_told_apart() -> None:
    url = parse_url("tidings+tls://me:a%40b@[::1]:7301,host")
    assert (url.user, url.password, url.encrypted) == ("me", "a@b", True)
    assert url.addresses == (("::1", 7301), ("host", 7300))


def test_the_first_that_answers_is_used() -> None:
    async def scenario() -> None:
        (unused,) = free_ports(1)
        async with local_broker() as (_, url), tidings.connect(joined(f"127.0.0.1:{unused}", url)) as client:
            assert client.connected
            assert (await client.publish("a", wait=True)).message_id

    run(scenario())


def test_no_address_that_answers_is_an_error_with_its_reason() -> None:
    async def scenario() -> None:
        first, second = free_ports(2)
        with pytest.raises(ConnectionLostError, match=rf"E_CONNECT: .*:{second}"):
            await tidings.connect(joined(f"127.0.0.1:{first}", f"127.0.0.1:{second}"))

    run(scenario())


@pytest.mark.parametrize("stopped", ["killed", "stopped"])
def test_subscriptions_and_unconfirmed_messages_follow_to_the_next_broker(tmp_path: Path, stopped: str) -> None:
    async def scenario(first: BrokerProcess, second: BrokerProcess) -> None:
        async with tidings.connect(joined(first.url, second.url), give_up_seconds=20) as client:
            ticks = await client.subscribe("ticks.>")
            await client.publish("ticks.a", {"n": 1}, wait=True)
            assert await number(ticks) == 1
            if stopped == "killed":
                first.process.kill()
                first.process.wait()
            else:
                assert await asyncio.to_thread(first.stop) == 0
            receipt = await client.publish("ticks.a", {"n": 2}, persistent=True)
            assert receipt.message_id
            assert await number(ticks) == 2
            assert client.generation == 2

    (tmp_path / "1").mkdir()
    (tmp_path / "2").mkdir()
    with BrokerProcess(tmp_path / "1") as first, BrokerProcess(tmp_path / "2") as second:
        run(scenario(first, second))


@pytest.mark.parametrize("ended", ["killed", "drained"])
def test_a_client_with_one_address_goes_where_its_broker_has_told_it(tmp_path: Path, ended: str) -> None:
    """Killed: it finds the other broker by itself. Drained: it is sent there, while its broker is still up."""
    network = '[network]\nname = "n"\nport = 0\ninsecure = true\n'

    async def scenario(first: BrokerProcess, second: BrokerProcess) -> None:
        async with tidings.connect(first.url, give_up_seconds=20) as client:
            ticks = await client.subscribe("ticks.>")
            if ended == "killed":
                first.process.kill()
                first.process.wait()
            else:
                ports = first.events("metrics")[-1]["port"]
                url = f"http://127.0.0.1:{ports}/api/v1/network/leaving"
                asked = urllib.request.Request(url, b'{"seconds": 3}', {"Content-Type": "application/json"})
                await asyncio.to_thread(lambda: urllib.request.urlopen(asked, timeout=10).close())
            while client.generation < 2:
                await asyncio.sleep(0.02)
            async with tidings.connect(second.url) as publisher:
                await publisher.publish("ticks.a", {"n": 1}, wait=True)
            assert await number(ticks) == 1

    (tmp_path / "1").mkdir()
    (tmp_path / "2").mkdir()
    with BrokerProcess(tmp_path / "2") as second:
        told = f'[broker]\nid = 2\nalternatives = ["127.0.0.1:{second.port}"]\n{network}'
        with BrokerProcess(tmp_path / "1", told) as first:
            run(scenario(first, second))


@pytest.mark.parametrize("wrong", ["nowhere", "a:b", ":1"])
def test_alternatives_are_addresses(wrong: str) -> None:
    with pytest.raises(ConfigError, match="alternatives"):
        parse(f'[broker]\nalternatives = ["{wrong}"]\n', "f")


def test_a_wrong_password_is_not_tried_elsewhere(tmp_path: Path) -> None:
    users.save(tmp_path / "users.toml", users.add(Users({}), "alice", "one", frozenset(), Cost(n=2, r=1, p=1)))

    async def scenario(guarded: BrokerProcess) -> None:
        async with local_broker() as (_, open_url):
            with pytest.raises(SecurityError, match="E_LOGIN"):
                await tidings.connect(joined(guarded.url, open_url), user="alice", password="two")

    with BrokerProcess(tmp_path, '[users]\nfile = "users.toml"\n') as guarded:
        run(scenario(guarded))
