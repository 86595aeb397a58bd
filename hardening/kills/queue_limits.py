"""A broker whose queues have limits is killed again and again while more is published than they hold.

    python -m hardening.kills.queue_limits 30          # kills; add a seed to repeat

One queue for each way to overflow, and one without a policy. At no time does a queue hold more than its policy says.
What was confirmed is acknowledged by the consumer, except what the policy takes: with `refuse` nothing, and what was
refused never comes; with `drop-oldest` only what many newer ones were behind; with `drop-newest` only what came to a
full queue; with `dead-letter` what is in the dead letters then. Nothing comes twice unmarked.
"""

import asyncio
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from hardening.record import noted, times
from tidings.client import Client, connect
from tidings.delivery.policy import Overflow
from tidings.errors import TidingsError
from tidings.localnet.ports import free_ports
from tidings.testing.broker_process import BrokerProcess

LIMIT, WINDOW, DEAD, SECONDS = 40, 4, "queue:limited.dead", 120.0
PLAIN = "queue:plain"
QUEUES = {f"queue:limited.{one.value}": one for one in Overflow}
LEAVING = 8  # messages that count until they are on disk as dead letters
BEHIND = LIMIT - WINDOW - 1  # newer ones that wait when one is dropped
CONFIGURATION = "".join(
    f"[[policies]]\ndestination = '{name}'\nmessages_max = {LIMIT}\noverflow = '{one.value}'\ndead_letters = '{DEAD}'\n"
    for name, one in QUEUES.items()
)


@dataclass
class LimitedQueue:
    """One queue as its clients know it: numbers of messages, with times."""

    name: str
    sent_at: dict[int, float] = field(default_factory=dict)
    confirmed: set[int] = field(default_factory=set)
    refused: set[int] = field(default_factory=set)
    acknowledged_at: dict[int, float] = field(default_factory=dict)
    came: Counter[int] = field(default_factory=Counter)  # unmarked
    most: int = 0  # held at once

    async def publish(self, client: Client, stop: asyncio.Event, rng: random.Random) -> None:
        while not stop.is_set():
            number = len(self.sent_at) + 1
            self.sent_at[number] = time.monotonic()
            try:
                await client.publish(self.name, {"n": number}, persistent=True)
                self.confirmed.add(number)
            except TidingsError as error:
                if error.code != "E_QUEUE_FULL":
                    raise
                self.refused.add(number)
                await asyncio.sleep(rng.uniform(0, 0.02))

    async def consume(self, client: Client, rng: random.Random, slow: asyncio.Event) -> None:
        subscription = await client.subscribe(self.name, ack="client", window=WINDOW)
        async for delivery in subscription:
            number = int(delivery.properties["n"])
            if not delivery.redelivered:
                self.came[number] += 1
            if slow.is_set():
                await asyncio.sleep(rng.uniform(0, 0.4))
            try:
                await delivery.ack()
            except TidingsError:
                continue  # its broker was lost: it comes again
            self.acknowledged_at[number] = time.monotonic()

    def problems(self, dead: set[int], kills: int) -> list[str]:
        missing = self.confirmed - self.acknowledged_at.keys()
        wrong = [f"{number} came unmarked {count} times" for number, count in self.came.items() if count > 1]
        overflow = QUEUES.get(self.name)
        if overflow is not None and self.most > LIMIT + (LEAVING if overflow is Overflow.DEAD_LETTER else 0):
            wrong.append(f"it held {self.most} messages at once")
        match overflow:
            case None:
                wrong += [f"{number} is lost" for number in missing]
            case Overflow.REFUSE:
                wrong += [f"{number} is lost" for number in missing]
                wrong += [f"{number} was refused, and came" for number in self.refused & self.acknowledged_at.keys()]
            case Overflow.DROP_OLDEST:
                wrong += [f"{one} is lost, and few came later" for one in missing if self._behind(one) < BEHIND]
            case Overflow.DROP_NEWEST:
                wrong += [f"{one} is lost, though there was room" for one in missing if self._before(one) < LIMIT - 1]
            case Overflow.DEAD_LETTER:
                wrong += [f"{number} is lost" for number in missing - dead]
                both = dead & self.acknowledged_at.keys()
                if len(both) > kills * WINDOW:  # acknowledgements that were not on disk yet
                    wrong.append(f"{len(both)} were acknowledged, and are dead letters")
        return [f"{self.name}: {one}" for one in wrong]

    def _behind(self, number: int) -> int:
        return sum(one > number for one in self.confirmed)

    def _before(self, number: int) -> int:
        """Older ones that were not acknowledged yet when it was sent."""
        sent_at = self.sent_at[number]
        return sum(one < number and at > sent_at for one, at in self.acknowledged_at.items())


async def watch(client: Client, queues: list[LimitedQueue]) -> dict[str, int]:
    """Look once; returns what each queue holds."""
    found = {one["name"]: int(one["messages"]) for one in (await client.inspect("mailboxes"))["items"]}
    for one in queues:
        one.most = max(one.most, found.get(one.name, 0))
    return found


async def keep_watching(client: Client, queues: list[LimitedQueue]) -> None:
    while True:
        with suppress(TidingsError):  # it is being killed
            await watch(client, queues)
        await asyncio.sleep(0.05)


async def hurt(process: BrokerProcess, url: str, kills: int, rng: random.Random) -> dict[str, int]:
    queues = [LimitedQueue(name) for name in (PLAIN, *QUEUES)]
    stop, slow = asyncio.Event(), asyncio.Event()
    slow.set()
    async with asyncio.TaskGroup() as tasks:
        clients = {one.name: (await connect(url), await connect(url)) for one in queues}
        watcher = await connect(url)
        watching = tasks.create_task(keep_watching(watcher, queues))
        publishing = [tasks.create_task(one.publish(clients[one.name][0], stop, rng)) for one in queues]
        consuming = [tasks.create_task(one.consume(clients[one.name][1], rng, slow)) for one in queues]
        for _ in range(kills):
            await asyncio.sleep(0.5 + rng.expovariate(1))
            process.signal(signal.SIGKILL)
            await asyncio.to_thread(process.__exit__)
            await asyncio.to_thread(process.__enter__)
        stop.set()
        await asyncio.gather(*publishing)
        slow.clear()
        async with asyncio.timeout(SECONDS):
            while any(held for name, held in (await watch(watcher, queues)).items() if name != DEAD):
                await asyncio.sleep(0.05)
        dead = {int(one.message.properties["n"]) async for one in watcher.queue(DEAD).browse()}
        for task in (watching, *consuming):
            task.cancel()
        for client in (watcher, *(one for pair in clients.values() for one in pair)):
            await client.close()
    wrong = [said for one in queues for said in one.problems(dead, kills)]
    assert not wrong, f"{len(wrong)}: {wrong[:10]}"
    taken = {
        QUEUES[one.name].value: len(one.confirmed - one.acknowledged_at.keys())
        for one in queues
        if one.name in QUEUES and QUEUES[one.name] is not Overflow.REFUSE
    }
    refused = sum(len(one.refused) for one in queues)
    assert all([refused, *taken.values()]), f"a limit was not met: {refused} refused, {taken}"
    figures = {"confirmed": sum(len(one.confirmed) for one in queues), "refused": refused}
    figures |= {"acknowledged": sum(len(one.acknowledged_at) for one in queues)}
    return figures | {f"taken by {name}": count for name, count in taken.items()}


def campaign(kills: int, seed: int) -> dict[str, int]:
    (port,) = free_ports(1)
    with tempfile.TemporaryDirectory() as folder:
        more = f"[broker]\ndata = 'data'\n[[listeners]]\nport = {port}\n{CONFIGURATION}"
        with BrokerProcess(Path(folder), more, level="info") as process:
            return asyncio.run(hurt(process, f"tidings://127.0.0.1:{port}", kills, random.Random(seed)))


def main(arguments: list[str]) -> None:
    kills = times(arguments[0])
    seed = int(arguments[1]) if arguments[1:] else random.SystemRandom().randrange(1 << 32)
    results = arguments[2] if arguments[2:] else None
    figures = noted(results, "kills and limits", lambda: campaign(kills, seed), kills=kills, seed=seed)
    sys.stdout.write(f"{kills} kills, seed {seed}: limits hold, nothing else is lost or doubled; {figures}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
