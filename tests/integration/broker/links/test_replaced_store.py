"""A broker that returns with an empty store, over real sockets: what waited for it reaches its durable subscriber."""

import asyncio
import json
from pathlib import Path

from hardening.support.links import BrokerNetwork, eventually

from tidings.broker.http.metrics import Metrics
from tidings.broker.http.network_status import status
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


def test_what_waited_for_a_replaced_store_reaches_the_durable_subscriber(tmp_path: Path) -> None:
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
            await network.stop(2)
            network._settings["empty_store"] = EmptyStoreOptions(EmptyStorePolicy.TAKE)  # the operator confirms
            await network.start(2)
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
