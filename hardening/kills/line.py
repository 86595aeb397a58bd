"""Three broker processes in a line, ended at random while messages cross them: nothing confirmed is lost or doubled.

    python -c 'from hardening.kills.line import main; main(["100"])'          # kills; add a seed to repeat

Publishers are at the first broker, a durable subscription and a shared one at the third; whichever broker is hit, what
the first confirmed arrives at the third, and what comes twice is marked.
"""

import asyncio
import random
import sys
import tempfile
from pathlib import Path

from hardening.kills.broker import BrokerProcess, Ledger, Member, consume, context, publish, quiet, total
from hardening.record import noted, times
from hardening.support.links import eventually
from tidings.client import Client, connect
from tidings.localnet.ports import free_ports

NOTED_SECONDS = 3.0  # brokers write down what they learned of others about once a second
PROBE = 0  # the number of messages that only find out whether the way is known


def line(folder: Path, size: int) -> list[BrokerProcess]:
    ports = free_ports(size)
    members = [
        Member(at + 1, ports[at], ((f"127.0.0.1:{ports[at + 1]}", at + 2),) if at + 1 < size else ())
        for at in range(size)
    ]
    return [BrokerProcess(folder / f"{member.router}.db", member=member) for member in members]


async def hurt(folder: Path, kills: int, rng: random.Random) -> Ledger:
    brokers = line(folder, 3)
    for broker in brokers:
        await asyncio.to_thread(broker.start)
    urls = [f"tidings://127.0.0.1:{broker.port}" for broker in brokers]
    ledger, stop = Ledger(), asyncio.Event()
    clients = [
        await connect(url, client_id=name) for url, name in zip([urls[0]] * 2 + [urls[2]] * 2, "pqab", strict=True)
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
    for _ in range(kills):
        await asyncio.sleep(0.03 + rng.expovariate(5))
        await asyncio.to_thread(rng.choice(brokers).end, rng)
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
    return all(ledger.seen.get(name) for name in ("durable", "shared"))


def crash_network(kills: int, *, kills_each: int = 10, seed: int = 1) -> list[Ledger]:
    """Raises AssertionError with what was broken; returns the ledger of each network."""
    context.set_forkserver_preload(["hardening.kills.broker"])
    rng = random.Random(seed)
    ledgers = []
    for done in range(0, kills, kills_each):
        with tempfile.TemporaryDirectory() as directory:
            ledger = asyncio.run(hurt(Path(directory), min(kills_each, kills - done), rng))
        for noted_twice in (ledger.unmarked, ledger.came_again):  # probes differ only in their ids
            noted_twice[:] = [one for one in noted_twice if one[1] != PROBE]
        problems = ledger.problems()
        assert not problems, f"after {done} to {done + kills_each} kills, seed {seed}: {problems[:10]}"
        ledgers.append(ledger)
    return ledgers


def main(arguments: list[str]) -> None:
    kills = times(arguments[0])
    seed = int(arguments[1]) if arguments[1:] else random.SystemRandom().randrange(1 << 32)
    results = arguments[2] if arguments[2:] else None
    figures = noted(
        results, "kills in a network", lambda: total(crash_network(kills, seed=seed)), kills=kills, seed=seed
    )
    confirmed = figures["confirmed"]
    sys.stdout.write(f"{kills} kills in lines of three brokers, seed {seed}: nothing lost of {confirmed:,} messages\n")
