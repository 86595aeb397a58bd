"""A broker that is killed between the write and the receipt: publishers send again what is delivered already."""

import asyncio
from collections import Counter
from functools import partial
from pathlib import Path

import pytest
from hardening.kills.broker import BrokerProcess
from hardening.support.links import eventually, free_ports
from hardening.support.tcp_wire import TcpWire

from tidings.client import Client, Subscription, connect
from tidings.protocols.native.frames import FrameType, control

COUNT = 200


async def _take(subscription: Subscription, got: Counter[int], marked: list[int]) -> None:
    async for message in subscription:
        n = int(message.properties["n"])
        got[n] += 1
        if message.redelivered:
            marked.append(n)
        await message.ack()


def _has(got: Counter[int], count: int) -> bool:
    return len(got) == count


async def _publish(client: Client, first: int, *, one_by_one: bool) -> list[asyncio.Task[None]]:
    async def one(n: int) -> None:
        await (await client.publish("t.x", {"n": n}, persistent=True, wait=False)).confirmed()

    tasks = []
    for n in range(first, first + (1 if one_by_one else COUNT)):
        tasks.append(asyncio.create_task(one(n)))
        await asyncio.sleep(0)
    return tasks


@pytest.mark.parametrize("one_by_one", [False, True])
def test_what_was_acknowledged_before_the_broker_was_killed_is_not_delivered_again(
    tmp_path: Path, one_by_one: bool
) -> None:
    """Three times, so that what an earlier life stored is known to a later one."""

    async def check() -> None:
        broker = BrokerProcess(tmp_path / "store.db")
        broker.start()
        wire = TcpWire(free_ports(1)[0], broker.port)
        await wire.start()
        got, marked = Counter[int](), list[int]()
        async with (
            connect(f"tidings://127.0.0.1:{wire.port}") as publisher,
            connect(f"tidings://127.0.0.1:{broker.port}", client_id="reader") as reader,
        ):
            subscription = await reader.subscribe("t.*", durable="d", ack="client")
            task = asyncio.create_task(_take(subscription, got, marked))
            count = 0
            for life in range(3):
                wire.mute = True
                sent = await _publish(publisher, life * COUNT, one_by_one=one_by_one)
                count += len(sent)
                await eventually(partial(_has, got, count))
                await reader.ask(
                    lambda receipt: control(FrameType.SYNC, {"receipt": receipt}), repeatable=False
                )  # the acknowledgements are on disk
                broker.kill()
                wire.mute = False
                broker.start()
                await asyncio.wait_for(asyncio.gather(*sent), 30)
            await asyncio.wait_for(publisher.publish("t.x", {"n": -1}, persistent=True, wait=True), 30)
            await eventually(lambda: got[-1] == 1)
            task.cancel()
        await wire.stop()
        broker.kill()
        assert max(got.values()) == 1
        assert not marked
        assert len(got) == count + 1

    asyncio.run(check())
