"""Brokers in a line whose queue is the network's, hurt at random while clients at all of them publish and consume.

    python -m hardening.kills.network_queues 20          # faults; add a seed to repeat

What was confirmed is acknowledged by some consumer, and comes to one of them unmarked at most once; whichever broker is
killed or stopped: the home, a consumer's, a publisher's, or one between them.
"""

import asyncio
import random
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from hardening.record import noted, times
from hardening.support.links import eventually
from tidings.client import Client, Subscription, connect
from tidings.errors import TidingsError
from tidings.localnet.ports import free_ports
from tidings.testing.broker_process import BrokerProcess

QUEUE, SECONDS = "queue:work", 120.0
STOP_SECONDS_MAX = 12.0  # longer than a home waits for a silent broker
SIZE = 4


class Site(NamedTuple):
    """A broker: its process, and its ports for clients, native, STOMP and AMQP."""

    process: BrokerProcess
    port: int
    stomp: int
    amqp: int

    @property
    def url(self) -> str:
        return f"tidings://127.0.0.1:{self.port}"

    def restart(self) -> None:
        self.process.signal(signal.SIGKILL)
        self.process.__exit__()
        self.process.__enter__()


@contextmanager
def line(folder: Path, size: int, home: int) -> Iterator[list[Site]]:
    """All queues and subscriptions are the network's; queues are kept by `home`, or (0) where each is first used."""
    links, sites = free_ports(size), []
    with ExitStack() as stack:
        for router in range(1, size + 1):
            directory = folder / str(router)
            directory.mkdir()
            native, stomp, amqp = free_ports(3)
            peers = f"peers = [{{address='127.0.0.1:{links[router - 2]}', router={router - 1}}}]" if router > 1 else ""
            more = (
                f"[broker]\nid = {router}\n[[listeners]]\nport = {native}\n"
                f"[[listeners]]\nprotocol = 'stomp'\nport = {stomp}\n[[listeners]]\nprotocol = 'amqp'\nport = {amqp}\n"
                f"[delivery]\nsubscription_scope = 'network'\n"
                f"[[policies]]\ndestination = 'queue:>'\nscope = 'network'\nhome = {home}\n"
                f"[network]\nname = 'test'\nport = {links[router - 1]}\ninsecure = true\n"
                f"heartbeat_ms = 200\nredial_ms_max = 300\n{peers}\n"
            )
            process = stack.enter_context(BrokerProcess(directory, more, level="info"))
            sites.append(Site(process, native, stomp, amqp))
        yield sites


@dataclass
class QueueLedger:
    """The numbers of messages: confirmed, acknowledged, and how often each came without a mark."""

    confirmed: set[int] = field(default_factory=set)
    acknowledged: set[int] = field(default_factory=set)
    unmarked: Counter[int] = field(default_factory=Counter)
    marked: int = 0
    sent: int = 0

    def problems(self) -> list[str]:
        lost = [f"{number} was confirmed and is lost" for number in sorted(self.confirmed - self.acknowledged)]
        return lost + [f"{number} came unmarked {count} times" for number, count in self.unmarked.items() if count > 1]

    async def consume(self, subscription: Subscription) -> None:
        async for delivery in subscription:
            number = int(delivery.properties["n"])
            if delivery.redelivered:
                self.marked += 1
            else:
                self.unmarked[number] += 1
            try:
                await delivery.ack()
            except TidingsError:
                continue  # its broker was lost: it comes again
            self.acknowledged.add(number)

    async def publish(self, client: Client, stop: asyncio.Event) -> None:
        while not stop.is_set():
            self.sent += 1
            number = self.sent
            await client.publish(QUEUE, {"n": number}, persistent=True)
            self.confirmed.add(number)


async def hurt(sites: list[Site], faults: int, rng: random.Random) -> QueueLedger:
    ledger, stop = QueueLedger(), asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        clients = [await connect(one.url) for one in sites]
        readers = [await client.subscribe(QUEUE, ack="client", window=8) for client in clients[1:]]
        consumers = [tasks.create_task(ledger.consume(reader)) for reader in readers]
        writers = [await connect(one.url) for one in (sites[0], sites[-1])]
        publishers = [tasks.create_task(ledger.publish(writer, stop)) for writer in writers]
        for _ in range(faults):
            await asyncio.sleep(0.3 + rng.expovariate(1))
            victim = rng.choice(sites)
            if rng.random() < 0.7:
                await asyncio.to_thread(victim.restart)
            else:
                victim.process.signal(signal.SIGSTOP)
                await asyncio.sleep(rng.uniform(0.1, STOP_SECONDS_MAX))
                victim.process.signal(signal.SIGCONT)
        stop.set()
        await asyncio.gather(*publishers)
        await eventually(lambda: ledger.confirmed <= ledger.acknowledged, SECONDS)
        for consumer in consumers:
            consumer.cancel()
        for client in (*clients, *writers):
            await client.close()
    return ledger


def campaign(faults: int, seed: int) -> dict[str, int]:
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder, line(Path(folder), SIZE, rng.choice((0, 1, 2, SIZE))) as sites:
        ledger = asyncio.run(hurt(sites, faults, rng))
    problems = ledger.problems()
    assert not problems, f"{faults} faults, seed {seed}: {problems[:10]}"
    return {"confirmed": len(ledger.confirmed), "acknowledged": len(ledger.acknowledged), "marked": ledger.marked}


def main(arguments: list[str]) -> None:
    faults = times(arguments[0])
    seed = int(arguments[1]) if arguments[1:] else random.SystemRandom().randrange(1 << 32)
    results = arguments[2] if arguments[2:] else None
    figures = noted(results, "kills and queues", lambda: campaign(faults, seed), kills=faults, seed=seed)
    sys.stdout.write(f"{faults} faults in a line of {SIZE} brokers, seed {seed}: nothing lost or doubled; {figures}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
