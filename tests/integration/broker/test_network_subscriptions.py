"""Durable and shared subscriptions of the network at three real brokers: native, STOMP and AMQP clients, and a
subscriber that moves while brokers are killed."""

import asyncio
import random
from pathlib import Path

from hardening.fuzz.amqp_streams import ACCEPT, DISPOSITION
from hardening.kills.moving_subscribers import SECONDS, hurt
from hardening.kills.network_queues import Site, line
from hardening.support.amqp_client import Client as AmqpClient
from hardening.support.amqp_client import source
from hardening.support.stomp import RawStomp

from tidings.client import connect
from tidings.protocols.amqp.sasl import amqp_frame
from tidings.protocols.amqp.wire.types import uint

TOPIC = "ticks.x"


async def publish(site: Site, *bodies: str) -> None:
    async with connect(site.url) as writer:
        for body in bodies:
            await (await writer.publish(TOPIC, {"kind": body}, body, persistent=True)).confirmed()


def test_a_durable_subscription_is_found_by_clients_of_three_protocols_at_three_brokers(tmp_path: Path) -> None:
    async def check(sites: list[Site]) -> None:
        async with connect(sites[0].url, client_id="alice") as first:
            await first.subscribe(TOPIC, durable="audit", wait="network")
        await publish(sites[1], "one", "two", "three")
        stomp = await RawStomp.open(sites[1].stomp)
        await stomp.connect(client_id="alice")
        headers = {"durable-subscription-name": "audit", "prefetch-count": "1"}
        await stomp.subscribe(f"/topic/{TOPIC}", ack="client-individual", **headers)
        frame = await stomp.expect("MESSAGE")
        assert frame.body == b"one"
        await stomp.send("ACK", {"id": frame.headers["ack"], "receipt": "done"})
        while (await stomp.frame()).command != "RECEIPT":
            pass  # the next one, which comes again when this connection ends
        stomp.close()
        assert await asyncio.to_thread(by_amqp, sites[2].amqp) == str(b"two")
        async with connect(sites[0].url, client_id="alice") as last:
            rest = await last.subscribe(TOPIC, durable="audit")
            delivery = await rest.receive(SECONDS)
            assert delivery is not None
            assert delivery.content == "three"

    with line(tmp_path, 3, home=0) as sites:
        asyncio.run(check(sites))


def by_amqp(port: int) -> str:
    """Take one message, and accept it."""
    client = AmqpClient(port, "alice")
    client.receive(0, source(f"topic://{TOPIC}", kept=True), name="audit", credit=1)
    number, said = client.take()
    client.say(amqp_frame(DISPOSITION, [True, uint(number), None, True, ACCEPT]))
    client.detach(0, closed=False)
    client.close()
    return said


def test_members_of_a_group_are_at_three_brokers(tmp_path: Path) -> None:
    async def check(sites: list[Site]) -> None:
        clients = [await connect(one.url) for one in sites]
        members = [await one.subscribe(TOPIC, shared="team", ack="client", wait="network") for one in clients]
        await publish(sites[1], *(str(n) for n in range(9)))
        got = [await members[number % 3].receive(SECONDS) for number in range(9)]
        assert sorted(str(one.content) for one in got if one is not None) == [str(n) for n in range(9)]
        assert not any(one.redelivered for one in got if one is not None)
        for client in clients:
            await client.close()

    with line(tmp_path, 3, home=0) as sites:
        asyncio.run(check(sites))


def test_a_subscriber_moves_while_brokers_are_killed_and_nothing_confirmed_is_lost(tmp_path: Path) -> None:
    with line(tmp_path, 3, home=0) as sites:
        ledger = asyncio.run(hurt(sites, 4, random.Random(5)))
    assert ledger.problems() == []
    assert ledger.moves > 3
