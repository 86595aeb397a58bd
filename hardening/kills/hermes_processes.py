"""Broker processes that route by types lose rendezvous nodes by kill -9 while events are published: first that of the
events' type, then that of its parent, if it is another.

Publishers and subscribers are at other brokers. Persistent events reach every subscription once, those too that are
published while nobody knows yet; and then other events arrive again. The report says how long that took.

    python -m hardening.kills.hermes_processes [BROKERS [SEED [REFRESH_MS]]]
"""

import asyncio
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from random import Random

from hardening.kills.pan_processes import all_see
from hardening.support.links import eventually
from tidings.client import Client, Subscription, connect
from tidings.node.network.pan_links import id_of
from tidings.overlay.pan import NETWORK_IDS
from tidings.testing.broker_process import BrokerProcess

WAIT_S = 180.0
REFRESH_MS = 10_000  # as brokers have it unless told otherwise
EVENTS = 20  # persistent ones, before the first kill and after each
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


def start(folder: Path, number: int, join: str, refresh_ms: int) -> BrokerProcess:
    folder.mkdir()
    more = _MORE.format(id=number, data=folder / "data", join=join, refresh_ms=refresh_ms)
    return BrokerProcess(folder, more)


def rendezvous(name: str, brokers: list[int]) -> int:
    """The broker whose id is the closest to the type's name."""
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


async def follow(
    brokers: dict[int, BrokerProcess], victims: list[int], rng: Random
) -> tuple[list[float], list[Counter[int]]]:
    """Returns how many seconds after each kill every subscription had an event again that is not persistent, and how
    often each was given each persistent one."""
    hosts = [router for router in brokers if router not in victims]
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
    await publish(publisher, range(EVENTS))
    took = []
    for number, victim in enumerate(victims, 1):
        brokers[victim].process.kill()
        killed = time.monotonic()
        publishing = asyncio.ensure_future(publish(publisher, range(number * EVENTS, (number + 1) * EVENTS)))
        await probe(publisher, listeners)
        took.append(time.monotonic() - killed)
        await publishing

    def all_there() -> bool:
        for listener in listeners:
            listener.read()
        return all(len(listener.got) == (len(victims) + 1) * EVENTS for listener in listeners)

    await eventually(all_there, WAIT_S)
    await asyncio.sleep(1.0)  # what comes now comes twice
    all_there()
    for client in clients.values():
        await client.close()
    return took, [listener.got for listener in listeners]


async def probe(publisher: Client, listeners: list[Listener]) -> None:
    """Publish events that are not persistent until all have got one."""
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


async def publish(publisher: Client, numbers: range) -> None:
    for number in numbers:
        await publisher.publish_event("Sale", {"n": number, "price": number, "buyer": "me"}, persistent=True)
        await asyncio.sleep(0.05)


def run(folder: Path, count: int, seed: int, refresh_ms: int = REFRESH_MS) -> tuple[list[float], list[Counter[int]]]:
    """Raises if an event is lost; returns what `follow` does."""
    rng = Random(seed)
    with ExitStack() as stack:
        brokers: dict[int, BrokerProcess] = {}
        for number in range(1, count + 1):
            join = ""
            if brokers:
                known = brokers[rng.choice(list(brokers))]
                join = f"127.0.0.1:{known.wait_for('links')['port']}"
            brokers[number] = stack.enter_context(start(folder / str(number), number, join, refresh_ms))
        victims = list(dict.fromkeys(rendezvous(name, list(brokers)) for name in ("Sale", "Trade")))
        return asyncio.run(follow(brokers, victims, rng))


def main(arguments: list[str]) -> None:
    count, seed, refresh_ms = (int(one) for one in (*arguments, *("6", "1", str(REFRESH_MS))[len(arguments) :]))
    with tempfile.TemporaryDirectory() as folder:
        took, got = run(Path(folder), count, seed, refresh_ms)
    assert got == [Counter(range((len(took) + 1) * EVENTS))] * len(got), got
    times = " and ".join(f"{one:.2f} s" for one in took)
    said = f"events that are not persistent arrived again everywhere {times} after the kills"
    sys.stdout.write(f"{count} brokers, refresh interval {refresh_ms / 1000} s: {said}; no persistent one was lost\n")


if __name__ == "__main__":
    main(sys.argv[1:])
