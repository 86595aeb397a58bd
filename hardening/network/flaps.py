"""Links that flap, and a partition, under load, on real sockets: nothing persistent may be lost or come twice.

    python -m hardening.network.flaps 120          # seconds; add a seed to repeat a run

Four brokers in a ring with a diagonal. A random link is cut every 0.1 to 5 s, for up to half a second; in the middle
the network falls apart in two, subscriptions change on both sides, and it comes together again. Meanwhile persistent
messages are published at two brokers, for durable subscriptions at the others.
"""

import asyncio
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from random import Random

from hardening.support.links import BrokerNetwork, eventually
from tidings.client import connect
from tidings.client.client import Client
from tidings.client.connection.answers import Receipt

EDGES = [(1, 2), (2, 3), (3, 4), (4, 1), (1, 3)]
WRITERS, READERS = (1, 2), (3, 4)
CUT_SECONDS_MAX = 0.5
RATE = 100.0  # messages a second of each writer
HEAL_SECONDS_MAX, READ_SECONDS_MAX = 60.0, 120.0


@dataclass(frozen=True, slots=True)
class Flaps:
    published: int
    cuts: int
    heal_seconds: float  # from the last fault until all tables were right


async def run(folder: Path, seconds: float, seed: int = 1, pause: tuple[float, float] = (0.1, 5.0)) -> Flaps:
    """Ends with an AssertionError if a message is missing or came twice."""
    async with BrokerNetwork(folder, EDGES, wired=True) as network:
        for router in READERS:
            async with connect(network.url(router), client_id=f"reader {router}") as reader:
                await reader.subscribe("ticks.>", durable="audit")
        await eventually(network.known, HEAL_SECONDS_MAX)
        trouble = asyncio.create_task(_trouble(network, seconds, Random(seed), pause))
        healing = asyncio.create_task(_heal_seconds(network, trouble))
        published = await asyncio.gather(*(_publish(network.url(router), router, seconds) for router in WRITERS))
        healed = await healing
        await eventually(network.known, HEAL_SECONDS_MAX)
        expected = sorted(n for some in published for n in some)
        for router in READERS:
            async with connect(network.url(router), client_id=f"reader {router}") as reader:
                await _read(reader, expected)
        return Flaps(len(expected), trouble.result(), healed)


async def _heal_seconds(network: BrokerNetwork, trouble: asyncio.Task[int]) -> float:
    """The time from the last fault until all tables were right."""
    await asyncio.wait([trouble])
    began = time.monotonic()
    await eventually(network.known, HEAL_SECONDS_MAX)
    return time.monotonic() - began


async def _trouble(network: BrokerNetwork, seconds: float, rng: Random, pause: tuple[float, float]) -> int:
    began, cuts, parted = time.monotonic(), 0, False
    while time.monotonic() < began + seconds:
        if not parted and time.monotonic() > began + seconds / 2:
            parted = True
            await _part(network)
        wire = rng.choice(list(network.wires.values()))
        wire.cut()
        cuts += 1
        await asyncio.sleep(rng.uniform(0, CUT_SECONDS_MAX))
        wire.heal()
        await asyncio.sleep(rng.uniform(*pause))
    return cuts


async def _part(network: BrokerNetwork) -> None:
    """{1, 2} and {3, 4} lose each other; on both sides somebody comes, and somebody else goes."""
    between = [wire for (a, b), wire in network.wires.items() if (a in WRITERS) != (b in WRITERS)]
    async with connect(network.url(1)) as one, connect(network.url(4)) as other:
        leaving = [await client.subscribe("nothing.>", selector="a = 1") for client in (one, other)]
        for wire in between:
            wire.cut()
        for client, subscription in zip((one, other), leaving, strict=True):
            await client.subscribe("nothing.>", selector="b = 2")
            await subscription.close()
        await asyncio.sleep(1.0)
        for wire in between:
            wire.heal()


async def _publish(url: str, router: int, seconds: float) -> list[int]:
    """Numbers of the messages whose receipts came."""
    began = time.monotonic()
    async with connect(url) as writer:
        receipts: dict[int, Receipt] = {}
        while time.monotonic() < began + seconds:
            number = router * 1_000_000 + len(receipts)
            receipts[number] = await writer.publish("ticks.a", {"n": number}, persistent=True)
            await asyncio.sleep(1 / RATE)
        for receipt in receipts.values():
            await receipt.confirmed()
        return list(receipts)


async def _read(reader: Client, expected: list[int]) -> None:
    audit = await reader.subscribe("ticks.>", durable="audit")
    got: list[int] = []
    deadline = time.monotonic() + READ_SECONDS_MAX
    while len(got) < len(expected):
        delivery = await audit.receive(max(0.1, deadline - time.monotonic()))
        assert delivery is not None, f"{len(expected) - len(got)} of {len(expected)} are missing"
        got.append(int(delivery.properties["n"]))
        await delivery.ack()
    assert await audit.receive(0.5) is None, "something came twice"
    assert sorted(got) == expected


def main(arguments: list[str]) -> None:
    if not 1 <= len(arguments) <= 2 or not all(one.isdecimal() for one in arguments):
        sys.exit("usage: python -m hardening.network.flaps SECONDS [SEED]")
    with tempfile.TemporaryDirectory() as folder:
        found = asyncio.run(run(Path(folder), float(arguments[0]), int(arguments[1]) if arguments[1:] else 1))
    sys.stdout.write(
        f"{found.published} persistent messages, {found.cuts} cuts and a partition: all arrived once; "
        f"tables right {found.heal_seconds:.2f} s after the last fault\n"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
