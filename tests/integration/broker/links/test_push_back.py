"""A publisher waits for a slow subscriber two brokers away, on real sockets; nothing is lost."""

import asyncio
from pathlib import Path

import pytest
from hardening.support.links import BrokerNetwork, eventually

from tidings.broker.http.network_status import status
from tidings.client import Client, connect

BODY = bytes(64 << 10)
ENOUGH = 2000  # messages: more than all queues on the way take


async def publish(writer: Client, sent: list[int], stop: asyncio.Event, *, persistent: bool) -> None:
    while not stop.is_set() and len(sent) < ENOUGH:
        sent.append(len(sent))
        await writer.publish("slow.x", {"n": sent[-1]}, BODY, persistent=persistent, wait=False)


@pytest.mark.parametrize("persistent", [False, True])
def test_a_far_publisher_waits_for_a_slow_subscriber(tmp_path: Path, persistent: bool) -> None:
    async def check() -> None:
        async with (
            BrokerNetwork(tmp_path, [(1, 2), (2, 3)], push_back=True) as network,
            connect(network.url(3)) as far,
            connect(network.url(1)) as writer,
        ):
            slow = await far.subscribe("slow.>", window=1)
            await eventually(network.known)
            sent: list[int] = []
            stop = asyncio.Event()
            publishing = asyncio.create_task(publish(writer, sent, stop, persistent=persistent))
            got: list[object] = []
            while not status(network.brokers[1].view())["plane"]["pushed_back"]:
                message = await slow.receive(20.0)
                assert message is not None
                got.append(message.properties["n"])
                await asyncio.sleep(0.02)
            assert len(sent) < ENOUGH, "it was held before it was through"
            stop.set()
            while len(got) < len(sent):
                message = await slow.receive(20.0)
                assert message is not None
                got.append(message.properties["n"])
            await publishing
            assert got == sent
            assert not slow.dropped

    asyncio.run(check())
