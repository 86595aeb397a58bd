"""Three to five broker processes in a line, hurt at random while messages cross them: the histories are judged.

    python -c 'from hardening.kills.line import main; main(["100"])'          # faults; add a seed to repeat

Publishers are at the first broker, a durable subscription and a shared one at the last; whichever broker is hit, what
the first confirmed arrives at the last, in the order of each publisher, and what comes twice is marked.
"""

import asyncio
import os
import random
import signal
import sys
import tempfile
from pathlib import Path

from hardening.kills.broker import BrokerProcess, Member, consume, context, parts_of, publish, quiet
from hardening.kills.campaign import rounds
from hardening.kills.ledger import Ledger
from hardening.record import noted, times
from hardening.support.links import eventually
from tidings.client import Client, connect
from tidings.localnet.ports import free_ports

NOTED_SECONDS = 3.0  # brokers write down what they learned of others about once a second
FAULTS_EACH, STOP_SECONDS_MAX = 10, 2.0
PROBE = 0  # the number of messages that only find out whether the way is known


def line(folder: Path, size: int) -> list[BrokerProcess]:
    ports = free_ports(size)
    members = [
        Member(at + 1, ports[at], ((f"127.0.0.1:{ports[at + 1]}", at + 2),) if at + 1 < size else ())
        for at in range(size)
    ]
    return [BrokerProcess(folder / f"{member.router}.db", member=member) for member in members]


async def hurt(folder: Path, faults: int, rng: random.Random) -> Ledger:
    brokers = line(folder, rng.randint(3, 5))
    for broker in brokers:
        await asyncio.to_thread(broker.start)
    urls = [f"tidings://127.0.0.1:{broker.port}" for broker in brokers]
    ledger, stop = Ledger(), asyncio.Event()
    clients = [
        await connect(url, client_id=name) for url, name in zip([urls[0]] * 2 + [urls[-1]] * 2, "pqab", strict=True)
    ]
    one, two, first, second = clients
    subscriptions = {
        "durable": await first.subscribe("t.*", durable="d", ack="client", window=20),
        "shared": await second.subscribe("t.>", shared="s", durable=True, ack="client"),
    }
    readers = zip((first, second), subscriptions.items(), strict=True)
    consumers = [asyncio.create_task(consume(client, sub, name, ledger)) for client, (name, sub) in readers]
    await eventually(lambda: _way_known(one, ledger), 60)
    await asyncio.sleep(NOTED_SECONDS)
    publishers = [asyncio.create_task(publish(client, ledger, stop)) for client in (one, two)]
    for _ in range(faults):
        await asyncio.sleep(0.03 + rng.expovariate(5))
        await fault(brokers, rng)
    stop.set()
    await asyncio.gather(*publishers)
    await quiet(ledger)
    for client in clients:
        await client.close()
    for consumer in consumers:
        consumer.cancel()
    await asyncio.gather(*consumers, return_exceptions=True)
    for broker in brokers:
        broker.kill()
    return ledger


async def _way_known(writer: Client, ledger: Ledger) -> bool:
    await writer.publish("t.x", {"n": PROBE}, persistent=True)
    return all(ledger.given.get(name) for name in ("durable", "shared"))


async def fault(brokers: list[BrokerProcess], rng: random.Random) -> None:
    """One ends and starts again; two do at once; or one does while another stands still."""
    first, second = rng.sample(brokers, 2)
    way = rng.random()
    if way < 0.6:
        await asyncio.to_thread(first.end, rng)
    elif way < 0.8:
        second.kill()
        await asyncio.to_thread(first.end, rng)
        await asyncio.to_thread(second.start)
    else:
        assert second.process.pid is not None
        os.kill(second.process.pid, signal.SIGSTOP)
        try:
            await asyncio.sleep(rng.uniform(0.1, STOP_SECONDS_MAX))
            await asyncio.to_thread(first.end, rng)
        finally:
            os.kill(second.process.pid, signal.SIGCONT)


def one_network(faults: int, seed: int, number: int) -> Ledger:
    """The round of this number: raises AssertionError with what was broken; returns the ledger of its network."""
    context.set_forkserver_preload(["hardening.kills.broker"])
    rng = random.Random(f"{seed}/{number}")
    with tempfile.TemporaryDirectory() as directory:
        ledger = asyncio.run(hurt(Path(directory), faults, rng))
    ledger.forget(PROBE)  # probes differ only in their ids
    problems = ledger.problems()
    assert not problems, f"round {number} of {faults} faults, seed {seed}: {problems[:10]}"
    return ledger


def crash_network(faults: int, *, faults_each: int = FAULTS_EACH, seed: int = 1) -> list[Ledger]:
    return [one_network(part, seed, number) for number, part in enumerate(parts_of(faults, faults_each))]


def main(arguments: list[str]) -> None:
    faults = times(arguments[0])
    seed = int(arguments[1]) if arguments[1:] else random.SystemRandom().randrange(1 << 32)
    results = arguments[2] if arguments[2:] else None
    name, parts = "kills in a network", parts_of(faults, FAULTS_EACH)

    def run() -> dict[str, int]:
        return rounds(name, seed, len(parts), lambda number: one_network(parts[number], seed, number).figures())

    figures = noted(results, name, run, kills=faults, seed=seed)
    confirmed = figures["confirmed"]
    sys.stdout.write(f"{faults} faults in lines of three to five brokers, seed {seed}: nothing lost of {confirmed:,}\n")
