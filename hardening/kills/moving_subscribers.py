"""Brokers in a line whose durable and shared subscriptions are the network's, hurt at random while a durable subscriber
moves from one to another and a group has members everywhere.

    python -m hardening.kills.moving_subscribers 20          # faults; add a seed to repeat

What was confirmed is acknowledged by the durable subscriber, and by one member of the group, and comes to neither
unmarked more than once.
"""

import asyncio
import random
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from hardening.kills.network_queues import QueueLedger, Site, line
from hardening.record import noted, times
from hardening.support.links import eventually
from tidings.client import Client, Subscription, connect
from tidings.errors import TidingsError

TOPIC, SECONDS, SIZE = "ticks.x", 120.0, 6
STAY_SECONDS = (0.1, 1.0)


@dataclass
class MovesLedger:
    """Ledgers of the durable subscriber and of the group."""

    durable: QueueLedger = field(default_factory=QueueLedger)
    group: QueueLedger = field(default_factory=QueueLedger)
    moves: int = 0
    sent: int = 0

    def problems(self) -> list[str]:
        found = {"durable": self.durable.problems(), "group": self.group.problems()}
        return [f"{who}: {what}" for who, all in found.items() for what in all]

    @property
    def complete(self) -> bool:
        return all(one.confirmed <= one.acknowledged for one in (self.durable, self.group))

    async def publish(self, client: Client, stop: asyncio.Event) -> None:
        while not stop.is_set():
            self.sent += 1
            number = self.sent
            await (await client.publish(TOPIC, {"n": number}, persistent=True)).confirmed()
            self.durable.confirmed.add(number)
            self.group.confirmed.add(number)

    async def wander(self, sites: list[Site], rng: random.Random, arrived: asyncio.Event) -> None:
        """The durable subscriber: it leaves, and comes again at any broker."""
        while True:
            with suppress(TidingsError, OSError):
                async with connect(rng.choice(sites).url, client_id="wanderer") as client:
                    wait = "broker" if arrived.is_set() else "network"  # all brokers know it from the first time on
                    subscription = await client.subscribe(TOPIC, durable="moves", ack="client", window=8, wait=wait)
                    arrived.set()
                    self.moves += 1
                    with suppress(TimeoutError):
                        async with asyncio.timeout(rng.uniform(*STAY_SECONDS)):
                            await self.durable.consume(subscription)
            await asyncio.sleep(0.02)


async def hurt(sites: list[Site], faults: int, rng: random.Random) -> MovesLedger:
    ledger, stop, arrived = MovesLedger(), asyncio.Event(), asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        wanderer = tasks.create_task(ledger.wander(sites, rng, arrived))
        clients = [await connect(one.url) for one in sites]
        members: list[Subscription] = [
            await client.subscribe(TOPIC, durable="team", shared="team", ack="client", window=8, wait="network")
            for client in clients[1:]
        ]
        consumers = [wanderer, *(tasks.create_task(ledger.group.consume(member)) for member in members)]
        await arrived.wait()
        writers = [await connect(one.url) for one in (sites[0], sites[-1])]
        publishers = [tasks.create_task(ledger.publish(writer, stop)) for writer in writers]
        for _ in range(faults):
            await asyncio.sleep(0.3 + rng.expovariate(1))
            await asyncio.to_thread(rng.choice(sites).restart)
        stop.set()
        await asyncio.gather(*publishers)
        await eventually(lambda: ledger.complete, SECONDS)
        for consumer in consumers:
            consumer.cancel()
        for client in (*clients, *writers):
            await client.close()
    return ledger


def campaign(faults: int, seed: int) -> dict[str, int]:
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder, line(Path(folder), SIZE, 0) as sites:
        ledger = asyncio.run(hurt(sites, faults, rng))
    problems = ledger.problems()
    assert not problems, f"{faults} faults, seed {seed}: {problems[:10]}"
    confirmed, marked = len(ledger.durable.confirmed), ledger.durable.marked + ledger.group.marked
    return {"confirmed": confirmed, "moves": ledger.moves, "marked": marked}


def main(arguments: list[str]) -> None:
    faults = times(arguments[0])
    seed = int(arguments[1]) if arguments[1:] else random.SystemRandom().randrange(1 << 32)
    results = arguments[2] if arguments[2:] else None
    figures = noted(results, "kills and moves", lambda: campaign(faults, seed), kills=faults, seed=seed)
    sys.stdout.write(f"{faults} faults in a line of {SIZE} brokers, seed {seed}: nothing lost or doubled; {figures}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
