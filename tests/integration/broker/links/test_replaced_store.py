"""Brokers with an empty store, over real sockets: what waited for one reaches its durable subscriber."""

import asyncio
import json
from pathlib import Path

import pytest
from hardening.support.links import BrokerNetwork, eventually
from typer.testing import CliRunner

from tidings.broker.http.metrics import Metrics
from tidings.broker.http.network_status import status
from tidings.broker.http.server import HttpEndpoint
from tidings.broker.management.api import ManagementApi
from tidings.broker.management.call import BrokerControl
from tidings.broker.management.operations import PREFIX
from tidings.broker.membership import Membership
from tidings.broker.server import Broker
from tidings.broker.startup import StartupOptions, prepare
from tidings.cli.net import app
from tidings.client import connect
from tidings.node.network.held_copies import EmptyStoreOptions, EmptyStorePolicy

COUNT = 20


async def _fill(network: BrokerNetwork) -> None:
    """Confirmed messages wait for router 2, which has lost its store."""
    async with connect(network.url(2), client_id="reader") as reader:
        await reader.subscribe("ticks.>", durable="audit")
        await eventually(network.known)
    await network.stop(2)
    async with connect(network.url(1)) as writer:
        for n in range(COUNT):
            await (await writer.publish("ticks.a", {"n": n}, persistent=True)).confirmed()
    for path in network.folder.glob("2.db*"):
        path.unlink()


async def _release(broker: Broker) -> int:
    """As `tidings net release` does."""

    async def nothing() -> list[str]:
        return []

    async def unchanged() -> None:
        pass

    async def no_backup(name: str) -> Path:
        return Path(name)

    membership = Membership(broker, lambda: prepare(StartupOptions(), ("native",)), unchanged, lambda: None)
    control = BrokerControl(
        broker.view,
        lambda: broker.login.guard,
        nothing,
        nothing,
        membership,
        broker.login.audit,
        lambda: None,
        no_backup,
    )
    endpoint = HttpEndpoint({}, None, {f"{PREFIX}/": ManagementApi(broker.management, control).answer})
    port = await endpoint.start("127.0.0.1", 0)
    try:
        command = ["release", "--json", "--url", f"http://127.0.0.1:{port}"]
        result = await asyncio.to_thread(CliRunner().invoke, app, command)
        assert result.exit_code == 0, result.output
        return int(json.loads(result.output)["released"])
    finally:
        await endpoint.stop()


@pytest.mark.parametrize("restarts", [False, True])
def test_what_waited_for_a_replaced_store_reaches_the_durable_subscriber(tmp_path: Path, restarts: bool) -> None:
    """The operator confirms, at the running broker or by a restart."""

    async def check() -> None:
        options = EmptyStoreOptions(EmptyStorePolicy.HOLD)
        async with BrokerNetwork(tmp_path, [(1, 2)], empty_store=options) as network:
            await _fill(network)
            await network.start(2)
            two = network.brokers[2]
            await eventually(lambda: status(two.view())["held"] == COUNT)
            await eventually(lambda: status(network.brokers[1].view())["in_transit"] == 0)
            assert json.loads(Metrics(two.view).health().body)["held"] == COUNT
            assert f"tidings_held_messages {COUNT}" in Metrics(two.view).metrics().body
            async with connect(network.url(2), client_id="reader") as reader:
                await reader.subscribe("ticks.>", durable="audit")
            if restarts:
                await network.stop(2)
                network._settings["empty_store"] = EmptyStoreOptions(EmptyStorePolicy.TAKE)
                await network.start(2)
            else:
                assert await _release(two) == COUNT
            async with connect(network.url(2), client_id="reader") as reader:
                audit = await reader.subscribe("ticks.>", durable="audit")
                got = [await audit.receive(20.0) for _ in range(COUNT)]
            assert [int(one.properties["n"]) for one in got if one is not None] == list(range(COUNT))
            assert all(one is not None and one.redelivered for one in got)
            await eventually(lambda: status(network.brokers[2].view())["held"] == 0)

    asyncio.run(check())


def test_with_take_it_is_given_to_whoever_is_there(tmp_path: Path) -> None:
    async def check() -> None:
        async with BrokerNetwork(tmp_path, [(1, 2)], empty_store=EmptyStoreOptions(EmptyStorePolicy.TAKE)) as network:
            await _fill(network)
            await network.start(2)
            await eventually(lambda: status(network.brokers[1].view())["in_transit"] == 0)
            assert status(network.brokers[2].view())["held"] == 0

    asyncio.run(check())


@pytest.mark.parametrize(("unsynchronised", "status"), [("hold", 200), ("refuse", 503)])
def test_a_broker_that_waits_for_its_network_is_ready_if_it_takes_messages_meanwhile(
    tmp_path: Path, unsynchronised: str, status: int
) -> None:
    """Started one after the other, each when the one before is ready."""

    async def check() -> None:
        network = BrokerNetwork(tmp_path, [(1, 2)], awaits_peers=True, unsynchronised=unsynchronised)
        await network.start(1)
        page = Metrics(network.brokers[1].view).health()
        assert (page.status, json.loads(page.body)["synchronised"]) == (status, False)
        await network.start(2)
        await eventually(lambda: Metrics(network.brokers[1].view).health().status == 200)
        await network.stop(2)
        await network.stop(1)

    asyncio.run(check())
