"""Clients of one broker as a process, for experiments with real brokers: `python -m tidings.lab.load load.json`.

Each client subscribes to its share of the workload (scale_out.py). When all have, the file `ready` appears; when the
file `go` does, they publish together at a Poisson rate for a while, wait for what is still on its way, and write how
many messages they sent and were given.
"""

import asyncio
import json
import sys
import time
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random

from tidings.client import connect
from tidings.client.client import Client
from tidings.client.subscription import Subscription
from tidings.lab.scale_out import SUBSCRIPTIONS, selector_of, workload

DRAIN_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class Load:
    url: str
    clients: list[int]
    seed: int
    rate: float  # messages a second, all clients of this process together
    seconds: float
    folder: str
    name: str

    def path(self, what: str) -> Path:
        return Path(self.folder) / f"{self.name}.{what}"

    def save(self) -> Path:
        self.path("load.json").write_text(json.dumps(asdict(self)))
        return self.path("load.json")


async def run(load: Load) -> None:
    got = [0]

    async def count(subscription: Subscription) -> None:
        async for _ in subscription:
            got[0] += 1

    async with AsyncExitStack() as stack:
        clients: list[Client] = []
        predicates = {
            client: workload(load.seed).predicates(client * SUBSCRIPTIONS, SUBSCRIPTIONS) for client in load.clients
        }
        counters: list[asyncio.Task[None]] = []
        for client in load.clients:
            one = await stack.enter_async_context(connect(load.url))
            clients.append(one)
            subscriptions = [await one.subscribe(">", selector=selector_of(each)) for each in predicates[client]]
            counters += [asyncio.create_task(count(each)) for each in subscriptions]
        load.path("ready").touch()
        while not (Path(load.folder) / "go").exists():
            await asyncio.sleep(0.05)
        sent = await publish(load, clients)
        await asyncio.sleep(DRAIN_SECONDS)
        load.path("result.json").write_text(json.dumps({"sent": sent, "delivered": got[0]}))
        for counter in counters:
            counter.cancel()


async def publish(load: Load, clients: list[Client]) -> list[int]:
    """Message number n of this process is message n of the workload of its own seed; returns who sent which."""
    rng = Random(f"{load.seed} {load.name}")
    messages = workload(load.seed).messages(0, round(load.rate * load.seconds))
    start = at = time.monotonic()
    sent = []
    for message in messages:
        at += rng.expovariate(load.rate)
        if at > start + load.seconds:
            break
        await asyncio.sleep(max(0.0, at - time.monotonic()))
        sender = rng.randrange(len(clients))
        await clients[sender].publish(message.destination, dict(message.properties), body=message.body, wait=False)
        sent.append(sender)
    return sent


def main(path: str) -> None:
    asyncio.run(run(Load(**json.loads(Path(path).read_text()))))


if __name__ == "__main__":
    main(sys.argv[1])
