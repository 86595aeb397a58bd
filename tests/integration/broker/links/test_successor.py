"""A peer with several addresses: the process that takes over its store is the same router with a new incarnation."""

from pathlib import Path

from hardening.support.links import QUICK, SECRET, eventually, free_ports

import tidings
from tidings.broker.connections.client_listeners import ListenerSettings
from tidings.broker.links.links import LinkSettings, Peers
from tidings.broker.server import Broker
from tidings.node.network.settings import NetworkSettings
from tidings.node.settings import NodeSettings
from tidings.protocols.native.session import NativeSession
from tidings.store.sqlite.store import SqliteStore
from tidings.testing.local_broker import run

MESSAGES = 50


async def started(router: int, store: Path, link_port: int, *dials: tuple[str, int]) -> tuple[Broker, str]:
    network = NetworkSettings(router, "test", dials, link=QUICK)
    links = LinkSettings(port=link_port, secret=SECRET)
    broker = Broker(NodeSettings(broker_id=router), SqliteStore(store), peers=Peers(network, links))
    await broker.start([])
    return broker, f"tidings://127.0.0.1:{await broker.listen(ListenerSettings(NativeSession, port=0))}"


def linked(broker: Broker, router: int) -> bool:
    network = broker.engine.node.network
    return network is not None and router in network.links.peers()


def test_messages_follow_to_the_process_that_took_over(tmp_path: Path) -> None:
    async def scenario() -> None:
        own, first, second = free_ports(3)
        sender, url = await started(1, tmp_path / "1", own, (f"127.0.0.1:{first},127.0.0.1:{second}", 2))
        broker, there = await started(2, tmp_path / "2", first)
        async with tidings.connect(there, client_id="desk") as client:
            await client.subscribe("ticks", durable="audit", ack="client", wait="network")
        await eventually(lambda: linked(sender, 2))
        async with tidings.connect(url) as publisher:
            for number in range(MESSAGES):
                if number == MESSAGES // 3:
                    await broker.stop()  # what follows waits at the sender
                if number == 2 * MESSAGES // 3:
                    broker, there = await started(2, tmp_path / "2", second)
                await publisher.publish("ticks", {"n": number}, persistent=True)
        got: list[object] = []
        async with tidings.connect(there, client_id="desk") as client:
            ticks = await client.subscribe("ticks", durable="audit", ack="client")
            while len(got) < MESSAGES:
                delivery = await ticks.receive(30)
                assert delivery is not None
                got.append(delivery.properties["n"])
                await delivery.ack()
        assert got == list(range(MESSAGES))
        assert linked(sender, 2)
        await sender.stop()
        await broker.stop()

    run(scenario())
