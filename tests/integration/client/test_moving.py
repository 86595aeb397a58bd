"""Clients that move to another broker of a network while messages come."""

import asyncio
import time
from pathlib import Path

import pytest
from hardening.kills.network_queues import Site, line

from tidings.client import Client, connect
from tidings.errors import ConnectionLostError, TidingsError

TOPIC, MESSAGES, MOVES = "ticks.x", 2000, 4


async def publish(client: Client, count: int, first: int = 0) -> None:
    for number in range(first, first + count):
        await client.publish(TOPIC, {"n": number})
        if number % 10 == 9:
            await asyncio.sleep(0.02)


def test_a_plain_subscriber_that_moves_loses_and_repeats_nothing(tmp_path: Path) -> None:
    async def check(sites: list[Site]) -> None:
        got: list[int] = []
        async with connect(sites[0].url) as writer, connect(sites[0].url) as reader:
            ticks = await reader.subscribe(TOPIC, wait="network", window=50)
            publishing = asyncio.create_task(publish(writer, MESSAGES))

            async def read() -> None:
                while (delivery := await ticks.receive()) is not None:
                    got.append(int(delivery.properties["n"]))

            reading = asyncio.create_task(read())
            for step in range(1, MOVES + 1):
                await reader.move(sites[step % 3].url, overlap=0.3)
            assert reader.generation == MOVES + 1
            await publishing
            deadline = time.monotonic() + 20
            while len(got) < MESSAGES and time.monotonic() < deadline:
                await asyncio.sleep(0.05)
            reading.cancel()
        assert got == list(range(MESSAGES))

    with line(tmp_path, 3, home=0) as sites:
        asyncio.run(check(sites))


def test_what_brokers_keep_moves_with_the_client(tmp_path: Path) -> None:
    async def check(sites: list[Site]) -> None:
        async with connect(sites[0].url, client_id="alice") as client, connect(sites[2].url) as writer:
            audit = await client.subscribe(TOPIC, durable="audit", ack="client", wait="network")
            await client.move(sites[1].url, overlap=0.1)
            receipt = await client.publish("queue:work", body="here", persistent=True)
            assert receipt.message_id
            await writer.publish(TOPIC, body="kept", persistent=True)
            delivery = await audit.receive(30)
            assert delivery is not None
            assert delivery.content == "kept"
            await delivery.ack()

    with line(tmp_path, 3, home=0) as sites:
        asyncio.run(check(sites))


def test_a_client_that_cannot_move_stays(tmp_path: Path) -> None:
    async def check(sites: list[Site]) -> None:
        async with connect(sites[0].url) as client:
            ticks = await client.subscribe(TOPIC)
            with pytest.raises((TidingsError, OSError)):
                await client.move("tidings://127.0.0.1:1", overlap=0)
            await client.publish(TOPIC, {"n": 1})
            delivery = await ticks.receive(10)
            assert delivery is not None
            assert client.generation == 1

    with line(tmp_path, 1, home=0) as sites:
        asyncio.run(check(sites))


def test_a_move_that_is_interrupted_leaves_the_client_where_it_is(tmp_path: Path) -> None:
    async def check(sites: list[Site]) -> None:
        async with connect(sites[0].url) as client:
            ticks = await client.subscribe(TOPIC)
            moving = asyncio.create_task(client.move(sites[1].url, overlap=5))
            await asyncio.sleep(0.5)
            await asyncio.to_thread(sites[1].restart)
            moving.cancel()
            with pytest.raises((asyncio.CancelledError, ConnectionLostError)):
                await moving
            await client.publish(TOPIC, {"n": 1})
            assert await ticks.receive(10) is not None
            await client.move(sites[1].url, overlap=0.1)
            assert client.generation == 2

    with line(tmp_path, 2, home=0) as sites:
        asyncio.run(check(sites))
