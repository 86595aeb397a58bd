"""Brokers that arrange themselves, over real sockets."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from hardening.support.links import eventually
from hardening.support.pan_brokers import PanBrokers

from tidings.broker.config.joining import joining
from tidings.broker.config.network import NetworkTable
from tidings.broker.config.tables import Configuration
from tidings.client import connect
from tidings.errors import ConfigError

WAIT_S = 180.0


def test_brokers_with_one_address_each_form_a_network_that_survives_losses(tmp_path: Path) -> None:
    """Eight in this process; `python -m hardening.kills.pan_processes` does it with sixteen real ones."""

    async def check() -> None:
        async with PanBrokers(tmp_path) as network:
            await network.start(1, by=None)
            for router in range(2, 9):
                await network.start(router, by=router - 1)
            clients = {router: await connect(network.url(router)) for router in network.brokers}
            subscriptions = {router: await client.subscribe("ticks.>") for router, client in clients.items()}
            await eventually(network.known, WAIT_S)
            await clients[5].publish("ticks.a", {"n": 1}, persistent=True)
            for subscription in subscriptions.values():
                delivery = await subscription.receive(WAIT_S)
                assert delivery is not None
                assert delivery.properties["n"] == 1
            for router in (1, 4):  # the first among them: nobody is needed any more
                await clients.pop(router).close()
                del subscriptions[router]
                await network.stop(router)
            await eventually(network.known, WAIT_S)
            await clients[8].publish("ticks.a", {"n": 2}, persistent=True)
            for subscription in subscriptions.values():
                delivery = await subscription.receive(WAIT_S)
                assert delivery is not None
                assert delivery.properties["n"] == 2
            for client in clients.values():
                await client.close()

    asyncio.run(check())


def test_joining_needs_an_address_and_proof_beyond_loopback() -> None:
    configuration = Configuration()
    joined = joining(configuration, "127.0.0.1:7301", bare=True)
    assert (joined.network.overlay, joined.network.join, joined.network.insecure) == ("pan", "127.0.0.1:7301", True)
    assert (joined.network.port, joined.metrics.port) == (0, 0)  # so that several run on one machine
    with pytest.raises(ConfigError, match="peers would not be authenticated"):
        joining(configuration, "10.0.0.5:7301", bare=True)
    assert joining(configuration, "::1:7301", bare=True).network.insecure


@pytest.mark.parametrize("address", ["", "127.0.0.1:7301"])
@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_a_member_says_where_others_reach_it(host: str, address: str) -> None:
    network = NetworkTable(name="n", host=host, insecure=True)
    with pytest.raises(ConfigError, match=f"network.address: other brokers cannot connect to {host}; set the address"):
        joining(Configuration(network=network), address, bare=False)
    reached = replace(network, address="10.0.0.5:7301")
    assert joining(Configuration(network=reached), address, bare=False).network.address == "10.0.0.5:7301"


@pytest.mark.parametrize(
    "address", ["nowhere", "127.0.0.1:²", "a host:7301", "::1", "a:b:1", "[a]:1", "a:" + "1" * 5000]
)
def test_what_is_not_an_address_is_not_joined(address: str) -> None:
    with pytest.raises(ConfigError, match="not host:port"):
        joining(Configuration(), address, bare=True)
