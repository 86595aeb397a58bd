"""Push-back between brokers: random networks with full links and slow subscribers, in virtual time.

    python -m hardening.simulate.congestion 1 10000 --processes 2

The kernel and the nodes that ship, with little memory for each queue. Sockets of links take few bytes a millisecond,
and some subscribers read at a tenth of the rate at which publishers would send. Checkers, once publishers have stopped:

- `nobody-waits-for-ever`: every publication is taken within a bounded time, and every queue runs empty: no two brokers
  wait for each other;
- `nothing-lost`: everybody has exactly what was published for him, once, and no counter of dropped messages has moved;
- `order`: on a tree of brokers, where routes do not change, in the order of each publisher.
"""

import sys
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from hardening.seeds import parser, run_seeds
from tidings.kernel.codec import decode_message, encode_message
from tidings.model.destination import Destination
from tidings.model.message import Message
from tidings.model.message_id import MessageId
from tidings.node.network.settings import NetworkSettings
from tidings.node.requests import Credit, Subscribe
from tidings.node.settings import NodeSettings
from tidings.overlay.link.machine import LinkOptions
from tidings.overlay.topology import generate as shapes
from tidings.overlay.topology.graph import Graph
from tidings.sim.broker import SimBroker, Sizes
from tidings.sim.brokers import Brokers
from tidings.sim.client import SimClient

LINK = LinkOptions(heartbeat_ms=200, suspect_ms=2000, dead_ms=20_000)
SETTLE_MS, LOAD_MS, END_MS = 2_000.0, 4_000.0, 600_000.0
BODY, STEP_MS, FIRST_CREDIT = 400, 4.0, 20
QUEUE_BYTES, LINK_BYTES_MS = 16_000, 60.0
SIZES = Sizes(
    output_bytes_max=8_000,
    settings=NodeSettings(deliveries_max=1_000_000, sink_bytes_max=QUEUE_BYTES, stall_ms=5_000),
)


@dataclass(slots=True, eq=False)
class Reader:
    router: int
    topic: str
    slow: bool
    client: SimClient | None = None

    def numbers(self) -> list[tuple[int, int]]:
        """Publisher and number of each message that it has."""
        assert self.client is not None
        return [_read(one.message) for one in self.client.deliveries]


@dataclass(slots=True, eq=False)
class Writer:
    router: int
    topic: str
    persistent: bool
    client: SimClient | None = None
    sent: int = 0


class CongestedNetwork:
    """`push_back` as in the settings; `link_bytes_ms`: None: links take all there is."""

    def __init__(self, seed: int, graph: Graph, *, push_back: bool = True, link_bytes_ms: float | None = None) -> None:
        links = {int(str(node)): [int(str(one)) for one in graph.neighbours(node)] for node in graph}
        settings = {
            router: NetworkSettings(
                router,
                dials=tuple((str(other), other) for other in sorted(links[router]) if other > router),
                link=LINK,
                backlog_bytes_max=QUEUE_BYTES,
                push_back=push_back,
            )
            for router in links
        }
        sizes = dict.fromkeys(settings, replace(SIZES, link_bytes_ms=link_bytes_ms))
        self.brokers = Brokers(graph, settings, seed, sizes=sizes)
        self._tree = sum(map(len, links.values())) == 2 * (len(links) - 1)
        self.readers: list[Reader] = []
        self.writers: list[Writer] = []

    # --- clients --------------------------------------------------------------------------------------------------

    def read(self, router: int, topic: str, *, slow: bool) -> Reader:
        reader = Reader(router, topic, slow)
        self.readers.append(reader)

        def act(machine: SimBroker, now: float) -> list[Any]:
            reader.client = machine.connect(now, f"reader {len(self.readers)}")
            return machine.request(now, reader.client, Subscribe(1, 1, topic, credit=FIRST_CREDIT * slow))

        self.brokers.driver.call(str(router), act)
        return reader

    def write(self, router: int, topic: str, *, persistent: bool = False) -> Writer:
        writer = Writer(router, topic, persistent)
        self.writers.append(writer)

        def act(machine: SimBroker, now: float) -> list[Any]:
            writer.client = machine.connect(now, f"writer {len(self.writers)}")
            return []

        self.brokers.driver.call(str(router), act)
        return writer

    def load(self, ms: float, *, slow_share: float = 0.1) -> None:
        """Each writer publishes as fast as it may, one message each step; slow readers take this share of a step's."""
        until, due = self.brokers.calendar.now + ms, 0.0
        while self.brokers.calendar.now < until:
            for place, writer in enumerate(self.writers):
                assert writer.client is not None
                if writer.client.heard_out:
                    self._publish(place, writer)
            due += slow_share
            while due >= 1:
                due -= 1
                self._give(1)
            self.brokers.calendar.run(until=self.brokers.calendar.now + STEP_MS)

    def _publish(self, place: int, writer: Writer) -> None:
        writer.sent += 1
        properties = {"w": place, "n": writer.sent}
        id = MessageId(1, writer.router, place, writer.sent)
        message = Message(Destination(writer.topic), properties, bytes(BODY), id=id, persistent=writer.persistent)

        def act(machine: SimBroker, now: float) -> list[Any]:
            assert writer.client is not None
            return machine.publish(now, writer.client, encode_message(message), writer.sent)

        self.brokers.driver.call(str(writer.router), act)

    def _give(self, credit: int) -> None:
        for reader in self.readers:
            if reader.slow:
                self._request(reader, credit)

    def _request(self, reader: Reader, credit: int) -> None:
        def act(machine: SimBroker, now: float) -> list[Any]:
            assert reader.client is not None
            return machine.request(now, reader.client, Credit(1, credit))

        self.brokers.driver.call(str(reader.router), act)

    # --- the end --------------------------------------------------------------------------------------------------

    def finish(self, end_ms: float = END_MS) -> int:
        """Slow readers go on at their rate, at most so long; returns the deliveries."""
        until = self.brokers.calendar.now + end_ms
        while self.missing():
            assert self.brokers.calendar.now < until, f"nobody-waits-for-ever: {self.missing()}"
            self._give(5)
            self.brokers.calendar.run(until=self.brokers.calendar.now + 100)
        self.check()
        return sum(len(reader.numbers()) for reader in self.readers)

    def missing(self) -> str:
        """Describes something that is not over yet; empty: all is."""
        for place, writer in enumerate(self.writers):
            assert writer.client is not None
            if not writer.client.heard_out:
                return f"publisher {place} at broker {writer.router} still waits"
        for reader in self.readers:
            due = sum(writer.sent for writer in self.writers if writer.topic == reader.topic)
            if len(reader.numbers()) < due:
                return f"the reader of {reader.topic} at broker {reader.router} has {len(reader.numbers())} of {due}"
        return ""

    def check(self) -> None:
        for reader in self.readers:
            got = reader.numbers()
            for place, writer in enumerate(self.writers):
                expected = list(range(1, writer.sent + 1)) if writer.topic == reader.topic else []
                mine = [n for w, n in got if w == place]
                where = f"{reader.topic} of publisher {place} at broker {reader.router}"
                assert sorted(mine) == expected, f"nothing-lost: {where}: {len(mine)} of {len(expected)}"
                assert mine == expected or not self._tree, f"order: {where}: {mine[:20]}"
        for router, broker in self.brokers.running().items():
            stats = broker.forwarder.stats()
            dropped = {name: count for name, count in stats.items() if "dropped" in name and count}
            assert not dropped, f"nothing-lost: broker {router} dropped {dropped}"


def _read(message: bytes) -> tuple[int, int]:
    properties = decode_message(message).properties
    return int(str(properties["w"])), int(str(properties["n"]))


def _graph(rng: Random) -> Graph:
    size = rng.randint(3, 6)
    match rng.randrange(4):
        case 0:
            return shapes.line(size)
        case 1:
            return shapes.ring(size)
        case 2:
            return shapes.star(size)
        case _:
            return shapes.random_tree(size, rng)


def drawn(seed: int) -> CongestedNetwork:
    rng = Random(seed)
    graph = _graph(rng)
    routers = [int(str(node)) for node in graph]
    rate = None if rng.random() < 0.3 else LINK_BYTES_MS * rng.uniform(0.5, 4)
    network = CongestedNetwork(seed, graph, link_bytes_ms=rate)
    network.brokers.calendar.run(until=SETTLE_MS)
    topics = [f"t.{number}" for number in range(rng.randint(2, 5))]
    for number, topic in enumerate(topics):
        for _ in range(rng.randint(1, 2)):
            network.read(rng.choice(routers), topic, slow=number == 0 or rng.random() < 0.3)
    network.brokers.calendar.run(until=2 * SETTLE_MS)
    for _ in range(rng.randint(2, 8)):
        network.write(rng.choice(routers), rng.choice(topics), persistent=rng.random() < 0.2)
    return network


def figures(seed: int) -> dict[str, int]:
    network = drawn(seed)
    network.load(LOAD_MS)
    deliveries = network.finish()
    held = sum(broker.forwarder.stats()["pushed_back"] for broker in network.brokers.running().values())
    return {"deliveries": deliveries, "pushed_back": held}


def main(arguments: list[str]) -> int:
    made = parser("simulate.congestion", "Push-back between brokers with full links and slow subscribers.")
    return run_seeds(made.parse_args(arguments), "congestion", figures)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
