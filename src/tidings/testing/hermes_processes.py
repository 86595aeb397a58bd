"""Broker processes that route by types lose their rendezvous node by kill -9 while events are published.

Publishers and subscribers are at other brokers. Persistent events reach every subscription once, those too that are
published while nobody knows yet; and then other events arrive again. The report says how long that took.

    python -m tidings.testing.hermes_processes [BROKERS [SEED]]
"""

import asyncio
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from random import Random

from tidings.client import Client, Subscription, connect
from tidings.node.pan_links import id_of
from tidings.overlay.pan import NETWORK_IDS
from tidings.testing.broker_process import BrokerProcess
from tidings.testing.links import eventually
from tidings.testing.pan_processes import all_see

WAIT_S = 180.0
REFRESH_MS = 10_000  # as brokers have it unless told otherwise
EVENTS = 40
PROBE = -1  # the number of events that are not persistent
_MORE = """
[broker]
id = {id}
data = "{data}"
[network]
name = "typed"
overlay = "pan"
routing = "hermes"
refresh_ms = {refresh_ms}
join = "{join}"
port = 0
insecure = true
"""


def start(folder: Path, number: int, join: str) -> BrokerProcess:
    folder.mkdir()
    more = _MORE.format(id=number, data=folder / "data", join=join, refresh_ms=REFRESH_MS)
    return BrokerProcess(folder, more)


def rendezvous(name: str, brokers: list[int]) -> int:
    """Whose id is the closest to the type's name."""
    key = NETWORK_IDS.hash(name)
    return min(brokers, key=lambda router: (NETWORK_IDS.distance(id_of(router), key), id_of(router)))


class Listener:
    """A subscription, and how often it was given each event."""

    def __init__(self, subscription: Subscription) -> None:
        self.got: Counter[int] = Counter()
        self.probes = 0
        self._subscription = subscription

    def read(self) -> None:
        while (delivery := self._subscription.receive_nowait()) is not None:
            number = int(delivery.properties["n"])
            if number == PROBE:
                self.probes += 1
            else:
                self.got[number] += 1


async def follow(brokers: dict[int, BrokerProcess], victim: int, rng: Random) -> tuple[float, list[Counter[int]]]:
    """Returns how many seconds after the kill every subscription had an event again that is not persistent, and how
    often each was given each persistent one."""
    hosts = [router for router in brokers if router != victim]
    rng.shuffle(hosts)
    clients = {router: await connect(brokers[router].url) for router in hosts}
    await eventually(lambda: all_see(brokers.values(), interested=False), WAIT_S)
    publisher = clients[hosts[0]]
    await publisher.add_type("Trade", {"n": "int", "price": "int"})
    await publisher.add_type("Sale", {"buyer": "string"}, parent="Trade")
    wanted = [("Trade", ""), ("Trade", "price >= 0"), ("Sale", ""), ("Sale", "buyer = 'me'")]
    listeners = [
        Listener(await clients[hosts[1 + index % (len(hosts) - 1)]].subscribe(type=name, selector=selector))
        for index, (name, selector) in enumerate(wanted)
    ]
    await publisher.advertise_type("Sale")
    await publish(publisher, range(EVENTS // 2))
    brokers[victim].process.kill()
    killed = time.monotonic()
    publishing = asyncio.ensure_future(publish(publisher, range(EVENTS // 2, EVENTS)))
    for listener in listeners:
        listener.read()
        listener.probes = 0

    async def resumed() -> bool:
        await publisher.publish_event("Sale", {"n": PROBE, "price": 0, "buyer": "me"})
        await asyncio.sleep(0.1)
        for listener in listeners:
            listener.read()
        return all(listener.probes for listener in listeners)

    await eventually(resumed, WAIT_S)
    took = time.monotonic() - killed
    await publishing

    def all_there() -> bool:
        for listener in listeners:
            listener.read()
        return all(len(listener.got) == EVENTS for listener in listeners)

    await eventually(all_there, WAIT_S)
    await asyncio.sleep(1.0)  # what comes now comes twice
    all_there()
    for client in clients.values():
        await client.close()
    return took, [listener.got for listener in listeners]


async def publish(publisher: Client, numbers: range) -> None:
    for number in numbers:
        await publisher.publish_event("Sale", {"n": number, "price": number, "buyer": "me"}, persistent=True)
        await asyncio.sleep(0.05)


def run(folder: Path, count: int, seed: int) -> tuple[float, list[Counter[int]]]:
    """Raises if an event is lost; returns what `follow` does."""
    rng = Random(seed)
    with ExitStack() as stack:
        brokers: dict[int, BrokerProcess] = {}
        for number in range(1, count + 1):
            join = ""
            if brokers:
                known = brokers[rng.choice(list(brokers))]
                join = f"127.0.0.1:{known.wait_for('links')['port']}"
            brokers[number] = stack.enter_context(start(folder / str(number), number, join))
        return asyncio.run(follow(brokers, rendezvous("Sale", list(brokers)), rng))


def main(arguments: list[str]) -> None:
    count, seed = (int(one) for one in (*arguments, *("6", "1")[len(arguments) :]))
    with tempfile.TemporaryDirectory() as folder:
        took, got = run(Path(folder), count, seed)
    assert got == [Counter(range(EVENTS))] * len(got), got
    said = f"after the kill events that are not persistent arrived again everywhere in {took:.1f} s"
    sys.stdout.write(f"{count} brokers, refresh interval {REFRESH_MS / 1000} s: {said}; no persistent one was lost\n")


if __name__ == "__main__":
    main(sys.argv[1:])
