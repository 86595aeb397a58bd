"""Queues of the network at three real brokers: native, STOMP and AMQP clients, kills of the home and of a consumer's
broker."""

import asyncio
from collections import Counter
from pathlib import Path

from hardening.fuzz.amqp_streams import ACCEPT, DISPOSITION
from hardening.kills.network_queues import Site, line
from hardening.support.amqp_client import Client as AmqpClient
from hardening.support.amqp_client import source
from hardening.support.links import eventually
from hardening.support.stomp import RawStomp

from tidings.client import Client, Subscription, connect
from tidings.errors import TidingsError
from tidings.protocols.amqp.sasl import amqp_frame
from tidings.protocols.amqp.wire.types import uint

SECONDS = 60.0
MESSAGES = 400


def test_clients_of_three_protocols_share_a_queue_whose_home_is_elsewhere(tmp_path: Path) -> None:
    async def check(sites: list[Site]) -> None:
        stomp = await RawStomp.open(sites[2].stomp)
        await stomp.connect()
        await stomp.subscribe("/queue/work", ack="client-individual", selector="kind = 'stomp'")
        async with connect(sites[1].url) as writer, connect(sites[1].url) as reader:
            native = await reader.subscribe("queue:work", selector="kind = 'native'", ack="client")
            for kind in ("stomp", "native", "amqp"):
                await writer.publish("queue:work", {"kind": kind}, kind, persistent=True)
            delivery = await native.receive(SECONDS)
            assert delivery is not None
            assert (delivery.properties["kind"], delivery.attempt) == ("native", 1)
            await delivery.ack()
            frame = await stomp.expect("MESSAGE")
            assert frame.body == b"stomp"
            await stomp.send("ACK", {"id": frame.headers["ack"], "receipt": "done"})
            assert (await stomp.expect("RECEIPT")).headers == {"receipt-id": "done"}
        assert await asyncio.to_thread(by_amqp, sites[2].amqp) == str(b"amqp")
        async with connect(sites[0].url) as last:
            rest = await last.subscribe("queue:work")
            assert await rest.receive(1.0) is None
        stomp.close()

    with line(tmp_path, 3, home=1) as sites:
        asyncio.run(check(sites))


def by_amqp(port: int) -> str:
    """Take one message, and accept it."""
    client = AmqpClient(port)
    client.receive(0, source("queue://work"), credit=1)
    number, said = client.take()
    client.say(amqp_frame(DISPOSITION, [True, uint(number), None, True, ACCEPT]))
    client.detach(0)
    client.close()
    return said


def test_the_home_and_the_broker_of_a_consumer_are_killed_and_nothing_confirmed_is_lost(tmp_path: Path) -> None:
    given: Counter[tuple[int, bool]] = Counter()  # by number of the message, and whether it was marked
    acknowledged: set[int] = set()

    async def consume(subscription: Subscription) -> None:
        async for delivery in subscription:
            number = int(delivery.properties["n"])
            given[number, delivery.redelivered] += 1
            try:
                await delivery.ack()
            except TidingsError:
                continue  # its broker was lost: it comes again
            acknowledged.add(number)

    async def publish(client: Client, first: int) -> None:
        for number in range(first, first + MESSAGES // 2):
            await client.publish("queue:work", {"n": number}, persistent=True)

    async def check(sites: list[Site]) -> None:
        home, middle, last = sites
        async with connect(middle.url) as one, connect(last.url) as two, connect(last.url) as writer:
            consumers = [
                asyncio.create_task(consume(await client.subscribe("queue:work", ack="client", window=8)))
                for client in (one, two)
            ]
            first = asyncio.create_task(publish(writer, 0))
            await eventually(lambda: len(acknowledged) > 40, SECONDS)
            await asyncio.to_thread(home.restart)
            await first
            second = asyncio.create_task(publish(writer, MESSAGES // 2))
            await eventually(lambda: len(acknowledged) > MESSAGES // 2 + 40, SECONDS)
            await asyncio.to_thread(middle.restart)
            await second
            await eventually(lambda: len(acknowledged) == MESSAGES, SECONDS)
            for consumer in consumers:
                consumer.cancel()

    with line(tmp_path, 3, home=1) as sites:
        asyncio.run(check(sites))
    assert [number for number in range(MESSAGES) if given[number, False] > 1] == []
