"""What a subscription costs at its own broker and at others, in processor time and memory.

    python -m bench.subscriptions [--subscriptions 100000] [--connections 100] [--seed 1] [--save]

The engine with the real forwarding plane, without sockets. Selectors of three conditions over STOMP and the native
protocol; then the mixed forms of `bench.interests` at a broker of a network, which advertises them, and at another one
that hears of them. Blocks of 50 requests, advertised every thousand, each case in a process of its own. Real brokers
and links: `bench.interests`.
"""

import argparse
import gc
import os
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import count
from multiprocessing import get_context
from pathlib import Path
from random import Random

from hardening.support.node_driver import NodeDriver

from bench.harness import save, table
from bench.interests import FORMS, selector
from tidings.broker.security.guard import Anybody
from tidings.node import inputs
from tidings.node.clients.client_sessions import ClientOptions
from tidings.node.effects import Effect, LogIn
from tidings.node.engine import Engine
from tidings.node.network.settings import NetworkSettings
from tidings.node.protocol_session import Hello
from tidings.node.requests import Subscribe
from tidings.node.settings import NodeSettings
from tidings.overlay import effects as fx
from tidings.protocols.native.request_encoding import encode_hello, encode_request
from tidings.protocols.native.session import NativeSession
from tidings.protocols.stomp.session import StompSession
from tidings.routing.bdrp.interests import InterestEncoding
from tidings.routing.bdrp.parts import part_of
from tidings.routing.control.codec import decode, encode
from tidings.routing.control.messages import FloodItem
from tidings.routing.scheme import TIMER

BLOCK, ADVERTISED_EVERY, TURN_MS = 50, 20, 60
TOPIC = "ticks"
CASES = (
    ("STOMP, three conditions", True, False),
    ("native, three conditions", False, False),
    ("native, mixed forms, advertised", False, True),
)


@dataclass(frozen=True, slots=True)
class SubscriptionCost:
    case: str
    cpu_us: float
    bytes: float


class Driver(NodeDriver):
    """A broker without sockets; `network`: the number of a router, 0: on its own."""

    def __init__(self, network: int = 0) -> None:
        self._network = network
        super().__init__(settings=NodeSettings(subscriptions_max=10_000_000))
        if network:
            self.step(inputs.LinksReady(""))

    def make_engine(self) -> Engine:
        if not self._network:
            return super().make_engine()
        settings = NetworkSettings(self._network, encoding=InterestEncoding(vectors=False, exact=True))
        return Engine(self.plane, self.settings, ClientOptions(count(1)), settings, rng=Random(1))

    def log_in(self, *, stomp: bool) -> int:
        number = self.plane.open()
        self.step(inputs.ClientOpened(number, StompSession() if stomp else NativeSession()))
        hello = b"CONNECT\naccept-version:1.2\nhost:b\n\n\0" if stomp else encode_hello(Hello("", "", "", 0))
        self.plane.feed_bytes(number, hello, self.now_ms)
        self.turn()
        return number

    def _carry_out(self, effect: Effect) -> None:
        if isinstance(effect, LogIn):
            self.step(inputs.LoggedIn(effect.connection, effect.hello, Anybody()))
        else:
            super()._carry_out(effect)

    def advertise(self) -> None:
        self.now_ms += TURN_MS
        self.step(fx.Timer(TIMER))


def three_conditions(number: int, random: Random) -> str:
    return (
        f"stock = 'S{random.randrange(100_000):05}' AND price > {random.randrange(100_000) / 100} "
        f"AND quantity < {random.randrange(1000)}"
    )


def frame(number: int, text: str, *, stomp: bool) -> bytes:
    if not stomp:
        return encode_request(Subscribe(number, number, TOPIC, text))
    return f"SUBSCRIBE\nid:{number}\ndestination:/topic/{TOPIC}\nselector:{text}\nreceipt:{number}\n\n\0".encode()


def blocks(subscriptions: int, seed: int, *, stomp: bool, mixed: bool) -> Iterator[bytes]:
    random = Random(seed)
    texts = (
        selector(FORMS[n % len(FORMS)], n, random) if mixed else three_conditions(n, random)
        for n in range(1, subscriptions + 1)
    )
    frames = [frame(n, text, stomp=stomp) for n, text in enumerate(texts, 1)]
    for at in range(0, subscriptions, BLOCK):
        yield b"".join(frames[at : at + BLOCK])


def resident() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def subscribe(driver: Driver, wanted: list[bytes], connections: list[int]) -> None:
    for number, block in enumerate(wanted):
        connection = connections[number % len(connections)]
        driver.plane.feed_bytes(connection, block, driver.now_ms)
        driver.turn()
        driver.plane.take(connection, 1 << 20, driver.now_ms)
        if driver.node.network is not None and number % ADVERTISED_EVERY == ADVERTISED_EVERY - 1:
            driver.advertise()
    if driver.node.network is not None:
        driver.advertise()


def measure(
    case: str, options: argparse.Namespace, *, stomp: bool, mixed: bool, network: bool
) -> list[SubscriptionCost]:
    driver = Driver(1 if network else 0)
    connections = [driver.log_in(stomp=stomp) for _ in range(options.connections)]
    wanted = list(blocks(options.subscriptions, options.seed, stomp=stomp, mixed=mixed))
    before, begin = resident(), time.process_time()
    subscribe(driver, wanted, connections)
    spent = time.process_time() - begin
    found = [_cost(case, options, spent, resident() - before)]
    return [*found, _heard(driver, options)] if network else found


def _heard(driver: Driver, options: argparse.Namespace) -> SubscriptionCost:
    """What it costs another broker to hear of them."""
    assert driver.node.network is not None
    flood, hearing = driver.node.network.flood, Driver(2)
    said = [encode(item) for (topic, router), log in flood._logs.items() if router == 1 for item in log.items]
    assert hearing.node.network is not None
    before, begin = resident(), time.process_time()
    for data in said:
        item = decode(data)
        assert isinstance(item, FloodItem)
        if part_of(item.topic) is not None:
            hearing.node.network.flood.link_up(hearing.now_ms, 1)
            effects = hearing.node.network.flood.receive(hearing.now_ms, 1, item)
            hearing.node.network._routed(effects)
            hearing.step(inputs.Turn())
    return _cost("… at a broker that hears of them", options, time.process_time() - begin, resident() - before)


def _cost(case: str, options: argparse.Namespace, spent: float, bytes: int) -> SubscriptionCost:
    each = options.subscriptions
    return SubscriptionCost(case, round(spent / each * 1e6, 1), round(bytes / each))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--subscriptions", type=int, default=100_000)
    parser.add_argument("--connections", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--save", action="store_true", help="write bench/results/subscriptions.json")
    options = parser.parse_args()
    rows: list[SubscriptionCost] = []
    for case, stomp, mixed in CASES:  # each in a process of its own: memory that one gave back is not another's
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            rows += pool.submit(measure, case, options, stomp=stomp, mixed=mixed, network=mixed).result()
    columns = ("subscription", "CPU µs", "bytes")
    table(f"{options.subscriptions} subscriptions", columns, [(one.case, one.cpu_us, one.bytes) for one in rows])
    if options.save:
        costs = [{"case": one.case, "cpu_us": one.cpu_us, "bytes": one.bytes} for one in rows]
        print("written to", save("subscriptions", {"subscriptions": options.subscriptions, "costs": costs}))


if __name__ == "__main__":
    main()
