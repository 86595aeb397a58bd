"""Clients that say beforehand what they will publish."""

import asyncio
from pathlib import Path

import pytest
from hardening.support.links import BrokerNetwork, eventually

import tidings
from tidings.client.client import Client
from tidings.errors import TidingsError
from tidings.routing.covering.scheme import CoveringScheme
from tidings.testing.local_broker import local_broker
from tidings.testing.local_broker import run_plain as run


def entries(network: BrokerNetwork, router: int) -> int:
    """Subscriptions that a broker has heard of, its own and others'."""
    joined = network.brokers[router].engine.node.network
    assert joined is not None
    assert isinstance(joined.scheme, CoveringScheme)
    return joined.scheme.counts()["entries"]


def test_what_is_advertised_reaches_other_brokers(tmp_path: Path) -> None:
    async def check() -> None:
        async with (
            BrokerNetwork(tmp_path, [(1, 2)], scheme="covering", advertise=()) as network,
            tidings.connect(network.url(1)) as writer,
            tidings.connect(network.url(2)) as reader,
        ):
            ticks = await reader.subscribe("ticks.>")
            assert entries(network, 1) == 0
            offer = await writer.advertise("ticks.*", selector="n > 0")
            assert offer.used
            await eventually(lambda: entries(network, 1) == 1)
            for n in range(3):
                await writer.publish("ticks.a", {"n": n})
            assert [await number(ticks) for _ in range(2)] == [1, 2]
            cut = list(network.brokers[1].clients.connections.values())
            for connection in cut:
                connection.abort()
            await eventually(lambda: not any(one in cut for one in network.brokers[1].clients.connections.values()))
            await writer.publish("ticks.a", {"n": 3})  # waits for the new connection
            await eventually(lambda: entries(network, 1) == 1)
            await writer.publish("ticks.a", {"n": 4})
            while await number(ticks) != 4:
                pass
            await offer.withdraw()
            await eventually(lambda: entries(network, 1) == 0)

    async def number(ticks: tidings.client.subscription.Subscription) -> int:
        delivery = await ticks.receive(30)
        assert delivery is not None
        return int(delivery.properties["n"])

    asyncio.run(check())


def test_other_brokers_take_it_and_make_no_use_of_it() -> None:
    async def refused(client: Client, destination: str, selector: str, code: str) -> None:
        with pytest.raises(TidingsError) as caught:
            await client.advertise(destination, selector)
        assert caught.value.code == code

    async def scenario() -> None:
        async with local_broker() as (_, url), tidings.connect(url) as client:
            offer = await client.advertise("ticks.>")
            assert not offer.used
            await offer.withdraw()
            await offer.withdraw()  # once is enough
            await refused(client, "queue:orders", "", "E_ADVERTISE_QUEUE")
            await refused(client, "ticks.>", "price >", "E_SELECTOR_SYNTAX")

    run(scenario())
