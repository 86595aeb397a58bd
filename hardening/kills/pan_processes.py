"""Sixteen broker processes, each given the address of one other, form a network; killing any three leaves it working.

python -m hardening.kills.pan_processes [BROKERS [KILLED [SEED]]]
"""

import asyncio
import json
import sys
import tempfile
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from random import Random

from hardening.support.links import eventually
from tidings.client import connect
from tidings.testing.broker_process import BrokerProcess

WAIT_S = 300.0
_MORE = """
[broker]
id = {id}
data = "{data}"
[network]
name = "arranged"
overlay = "pan"
join = "{join}"
port = 0
insecure = true
"""


def start(folder: Path, number: int, join: str) -> BrokerProcess:
    folder.mkdir()
    return BrokerProcess(folder, _MORE.format(id=number, data=folder / "data", join=join))


def sees(broker: BrokerProcess) -> dict[str, object]:
    found: dict[str, object] = json.loads(broker.get("/network"))
    return found


def all_see(brokers: Iterable[BrokerProcess], interested: bool = True) -> bool:
    brokers = list(brokers)
    pages = [sees(broker) for broker in brokers]
    others = len(brokers) - 1
    for page in pages:
        routes, interests = page["routes"], page["interests"]
        assert isinstance(routes, dict)
        assert isinstance(interests, dict)
        if len(routes) != others or (interested and sum(rows > 0 for rows in interests.values()) < others):
            return False
    return True


async def everybody_gets(brokers: dict[int, BrokerProcess], number: int) -> None:
    """A message published at each of some brokers reaches a subscriber at every broker."""
    clients = {router: await connect(broker.url) for router, broker in brokers.items()}
    subscriptions = {router: await client.subscribe("ticks.>") for router, client in clients.items()}
    await eventually(lambda: all_see(brokers.values()), WAIT_S)
    for router in list(clients)[:3]:
        await clients[router].publish("ticks.a", {"from": router, "n": number}, persistent=True)
    for router, subscription in subscriptions.items():
        got: set[object] = set()
        for _ in list(clients)[:3]:
            delivery = await subscription.receive(WAIT_S)
            assert delivery is not None, f"broker {router} got {got}"
            got.add(delivery.properties["from"])
        assert got == set(list(clients)[:3]), f"broker {router} got {got}"
    for client in clients.values():
        await client.close()


def run(folder: Path, count: int, killed: int, seed: int) -> list[int]:
    """Raises if the network does not work; returns how many links each broker had."""
    rng = Random(seed)
    with ExitStack() as stack:
        brokers: dict[int, BrokerProcess] = {}
        for number in range(1, count + 1):
            join = ""
            if brokers:
                known = brokers[rng.choice(list(brokers))]
                join = f"127.0.0.1:{known.wait_for('links')['port']}"
            brokers[number] = stack.enter_context(start(folder / str(number), number, join))
        asyncio.run(everybody_gets(brokers, 1))
        links = [len(sees(broker)["links"]) for broker in brokers.values()]  # type: ignore[arg-type]
        for number in rng.sample(list(brokers), killed):
            brokers.pop(number).process.kill()
        asyncio.run(everybody_gets(brokers, 2))
    return links


def main(arguments: list[str]) -> None:
    count, killed, seed = (int(one) for one in (*arguments, *("16", "3", "1")[len(arguments) :]))
    with tempfile.TemporaryDirectory() as folder:
        links = run(Path(folder), count, killed, seed)
    sys.stdout.write(f"{count} brokers, {min(links)} to {max(links)} links each; without {killed} of them it works\n")


if __name__ == "__main__":
    main(sys.argv[1:])
