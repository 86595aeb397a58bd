"""A network of real broker processes is cut in two and healed, again and again: nothing persistent is lost or doubled.

    python -m hardening.network.partition 5 [RESULTS]      # as root

Each broker is in a network namespace of its own, the links are cables between them (tidings.localnet.namespaces).
Pulling
the cables between two halves loses packets without a word, as a network that fails does: no connection is reset. While
it is cut, messages are published on both sides for durable subscriptions on both.
"""

import asyncio
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

from hardening.record import noted, times
from tidings.client import connect
from tidings.client.client import Client
from tidings.localnet.member import Routing
from tidings.localnet.namespaces import within
from tidings.localnet.network import LocalNetwork, LocalOptions
from tidings.overlay.topology.graph import Graph

EDGES = (("a", "b"), ("b", "c"), ("c", "d"), ("d", "a"))
HALVES = ({"a", "b"}, {"c", "d"})
READERS, WRITERS = ("a", "c"), ("b", "d")
MESSAGES = 50  # by each writer at a time: before the cut, at once after it, when it was noticed, when it is healed
WAIT_SECONDS = 120.0


def run(folder: Path, times: int) -> int:
    """Returns how many messages were confirmed; ends with an AssertionError if one is missing or came twice."""
    graph = Graph()
    for a, b in EDGES:
        graph.add(a, b, latency_ms=1)
    network = LocalNetwork.create(folder, graph, LocalOptions(routing=Routing(), namespaces=True))
    assert network.plan is not None
    between = [(a, b) for a, b in EDGES if (a in HALVES[0]) != (b in HALVES[0])]
    network.start()
    try:
        _eventually(network.settled, "the network does not settle")
        for name in READERS:
            _at(network, name, _subscribe)
        _eventually(lambda: _known(network), "subscriptions are not known everywhere")
        expected: list[int] = []
        for number in range(times):
            start = number * 1_000_000
            expected += _publish(network, start)
            for a, b in between:
                network.plan.set_link(a, b, up=False)
            expected += _publish(network, start + 100_000)
            _eventually(lambda: _parted(network), "nobody notices that the network is cut")
            expected += _publish(network, start + 200_000)
            for a, b in between:
                network.plan.set_link(a, b, up=True)
            _eventually(network.settled, "the network does not come together")
            expected += _publish(network, start + 300_000)
        for name in READERS:
            _at(network, name, partial(_read, expected=expected))
        return len(expected)
    finally:
        network.stop()


def _at(network: LocalNetwork, name: str, work: Callable[[Client], Awaitable[None]]) -> None:
    """By a client of this broker, in its namespace."""
    assert network.plan is not None
    url = network.members[name].url()

    async def there() -> None:
        async with connect(url, client_id=f"client {name}") as client:
            await work(client)

    within(network.plan.namespace(name), lambda: asyncio.run(there()))


async def _subscribe(client: Client) -> None:
    await client.subscribe("ticks.>", durable="audit")


def _publish(network: LocalNetwork, start: int) -> list[int]:
    numbers: list[int] = []
    for place, name in enumerate(WRITERS):
        mine = range(start + place * 10_000, start + place * 10_000 + MESSAGES)

        async def publish(client: Client, mine: range = mine) -> None:
            receipts = [await client.publish("ticks.a", {"n": number}, persistent=True) for number in mine]
            for receipt in receipts:
                await receipt.confirmed()

        _at(network, name, publish)
        numbers += mine
    return numbers


async def _read(client: Client, expected: list[int]) -> None:
    audit = await client.subscribe("ticks.>", durable="audit")
    got: Counter[int] = Counter()
    while len(got) < len(expected) and (delivery := await audit.receive(WAIT_SECONDS)) is not None:
        got[int(delivery.properties["n"])] += 1
        await delivery.ack()
    missing = set(expected) - set(got)
    assert not missing, f"{len(missing)} of {len(expected)} are missing: {sorted(missing)[:10]}"
    assert await audit.receive(1.0) is None, "something came twice"
    assert max(got.values()) == 1, "something came twice"


def _known(network: LocalNetwork) -> bool:
    """Everybody has heard of the subscriptions of all others: what is published before goes nowhere."""
    return all(
        one["sees"] is not None and sum(map(bool, one["sees"]["interests"].values())) == len(set(READERS) - {name})
        for name, one in network.status().items()
    )


def _parted(network: LocalNetwork) -> bool:
    """Everybody has a route to the other broker of its half, and to no other."""
    return all(one["sees"] is not None and len(one["sees"]["routes"]) == 1 for one in network.status().values())


def _eventually(condition: Callable[[], bool], otherwise: str) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline, otherwise
        time.sleep(0.1)


def main(arguments: list[str]) -> None:
    if not 1 <= len(arguments) <= 2 or not arguments[0].isdecimal():
        sys.exit("usage: python -m hardening.network.partition TIMES [RESULTS]")
    count = times(arguments[0])
    with tempfile.TemporaryDirectory() as folder:
        net, results = Path(folder) / "net", arguments[1] if arguments[1:] else None
        found = noted(results, "partitions", lambda: {"confirmed": run(net, count)}, times=count)
    sys.stdout.write(f"{count} partitions, {found['confirmed']} confirmed messages: all arrived, none twice\n")


if __name__ == "__main__":
    main(sys.argv[1:])
