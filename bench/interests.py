"""Very many subscriptions of mixed forms at one broker of five, all real processes: `python -m bench.interests`.

    python -m bench.interests [--subscriptions 100000] [--forms list range box prefix] [--seed 1] [--save]
    python -m bench.interests --routing covering --forms ascending --subscriptions 50000

Watch lists, ranges, geographical boxes and prefixes, a quarter each, arrive at one broker of a line of five in blocks.
Measured: the processor time of each broker for them (from /proc, of all its threads, less what it takes at rest), what
its links carried, how much memory it took, and how long after the last one a message that only this one wants arrives
from the farthest broker. Beside the bytes of links stand those of one exact filter.
"""

import argparse
import asyncio
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any, TypeAlias

from bench.harness import save, table
from bench.processes import cpu_seconds
from tidings import connect
from tidings.errors import TidingsError
from tidings.localnet.member import Routing
from tidings.localnet.network import LocalNetwork, LocalOptions
from tidings.localnet.ports import free_ports
from tidings.model.codec import encode_predicate
from tidings.model.destination import DestinationPattern
from tidings.model.selector import Selector
from tidings.node.clients.subscription_plan import predicate_of
from tidings.node.protocol_session import Hello
from tidings.node.requests import Subscribe
from tidings.overlay.topology.generate import line
from tidings.protocols.native.frames import FrameSplitter, FrameType, decode_fields
from tidings.protocols.native.request_encoding import encode_hello, encode_request

FORMS = ("list", "range", "box", "prefix")
ORDERED = ("ascending", "shuffled", "clustered")  # equalities on one attribute, in these orders
BROKERS, BLOCK, SYMBOLS = 5, 1000, 10_000
PROBE_SECONDS, SETTLE_SECONDS, IDLE_SECONDS, WAIT_SECONDS = 0.02, 5.0, 10.0, 900.0
TOPIC = "events.all"


@dataclass(slots=True)
class Measurement:
    subscriptions: int
    forms: list[str]
    seed: int
    brokers: int
    routing: str
    filter_bytes: float = 0.0  # of one exact filter
    link_bytes: float = 0.0  # on all links, for each subscription and link
    effective_ms: float = 0.0
    lost_links: int = 0
    advertising: dict[str, Any] = field(default_factory=dict)
    others: list[dict[str, Any]] = field(default_factory=list)


def selector(form: str, number: int, random: Random) -> str:
    """A selector of a form, as clients of a market, a fleet or a log have them."""
    match form:
        case "ascending":
            return f"acct = {number}"
        case "shuffled":
            return f"acct = {number * 7_368_787 % 15_485_863}"
        case "clustered":
            return f"acct = {number * 7_368_787 % 64 * 1_000_000 + number}"
        case "list":
            symbols = {f"'S{random.randrange(SYMBOLS):05}'" for _ in range(8)}
            return f"sym IN ({', '.join(sorted(symbols))})"
        case "range":
            low = random.randrange(1, 100_000) / 100
            side = random.choice((f"price > {low}", f"price < {low}", f"price BETWEEN {low} AND {low + 5}"))
            return f"sym = 'S{random.randrange(SYMBOLS):05}' AND {side}"
        case "box":
            lat, lon = random.randrange(-80_000, 80_000) / 1000, random.randrange(-180_000, 180_000) / 1000
            high, wide = random.choice((0.05, 0.2, 1.0)), random.choice((0.05, 0.2, 1.0))
            return f"lat BETWEEN {lat} AND {round(lat + high, 3)} AND lon BETWEEN {lon} AND {round(lon + wide, 3)}"
        case _:
            return f"path LIKE '/{random.randrange(1000)}/{random.randrange(1_000_000):x}%'"


def requests(count: int, forms: list[str], random: Random) -> Iterator[Subscribe]:
    for number in range(1, count + 1):
        yield Subscribe(number, number, TOPIC, selector(forms[number % len(forms)], number, random))


def exact_bytes(count: int, forms: list[str], seed: int, sample: int = 2000) -> float:
    """Mean size of the filters as bytes."""
    some = [one.selector for one in requests(min(count, sample), forms, Random(seed))]
    topic = DestinationPattern.parse(TOPIC)
    return sum(len(encode_predicate(predicate_of(topic, Selector(one)))) for one in some) / len(some)


Looks: TypeAlias = list[tuple[float, int]]
Seen: TypeAlias = list[dict[str, Any]]


class Subscriber:
    """A native connection that sends requests in blocks and counts the answers."""

    def __init__(self, url: str) -> None:
        host, _, port = url.removeprefix("tidings://").partition(":")
        self._address = host, int(port)
        self.answered = 0

    async def __aenter__(self) -> "Subscriber":
        self._reader, self._writer = await asyncio.open_connection(*self._address)
        self._writer.write(encode_hello(Hello("", "", "", 0)))
        self._reading = asyncio.create_task(self._read())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._reading.cancel()
        self._writer.close()

    async def subscribe(self, wanted: Iterator[Subscribe]) -> None:
        sent = 0
        while block := list(islice(wanted, BLOCK)):
            self._writer.write(b"".join(map(encode_request, block)))
            sent += len(block)
            await self._writer.drain()
            while self.answered < sent:
                if self._reading.done():
                    self._reading.result()
                await asyncio.sleep(0.001)

    async def _read(self) -> None:
        splitter = FrameSplitter(1 << 24)
        while data := await self._reader.read(1 << 18):
            for frame in splitter.feed(data):
                if frame.type in (FrameType.ERROR, FrameType.CLOSE, FrameType.REFUSED):
                    raise TidingsError("E_BENCH", f"the broker refuses a subscription: {decode_fields(frame.payload)}")
                self.answered += frame.type == FrameType.OK
        raise TidingsError("E_BENCH", "the broker closed the connection")


class Network:
    """Five brokers in a line, in memory of this machine."""

    def __init__(self, folder: Path, routing: Routing, brokers: int) -> None:
        port = free_ports(3 * brokers)[0]
        self.net = LocalNetwork.create(folder, line(brokers), LocalOptions(port=port, routing=routing))
        for one in self.net.members.values():
            with one.config(folder).open("a") as file:
                file.write(f"[limits]\nsubscriptions_max = {10_000_000}\n")
        self.members = list(self.net.members.values())

    def __enter__(self) -> "Network":
        self.net.start()
        self._wait(self.net.settled, "the network does not come up")
        self.pids = [self._pid(one.config(self.net.folder)) for one in self.members]
        return self

    def __exit__(self, *_: object) -> None:
        self.net.stop()

    def _pid(self, config: Path) -> int:
        wanted = str(config).encode()
        for one in Path("/proc").iterdir():
            with suppress(OSError):
                if one.name.isdigit() and wanted in (one / "cmdline").read_bytes().split(b"\0"):
                    return int(one.name)
        raise TidingsError("E_BENCH", f"no process serves {config}")

    def _wait(self, until: Callable[[], bool], else_: str) -> None:
        deadline = time.monotonic() + WAIT_SECONDS
        while not until():
            if time.monotonic() > deadline:
                raise TidingsError("E_BENCH", else_)
            time.sleep(0.1)

    def look(self) -> Looks:
        """Processor seconds and resident bytes of every broker."""
        return [(cpu_seconds(pid), _resident(pid)) for pid in self.pids]

    def seen(self) -> Seen:
        return [one["sees"] for one in self.net.status().values()]

    def quiet(self) -> None:
        """Wait until brokers have next to nothing to do."""
        while True:
            before = sum(cpu for cpu, _ in self.look())
            time.sleep(SETTLE_SECONDS)
            if sum(cpu for cpu, _ in self.look()) - before < 0.04 * SETTLE_SECONDS * len(self.pids):
                return


def _resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def effective_ms(near: str, far: str) -> float:
    """From a subscription to a message that only it wants, published at the far broker until it arrives."""
    async with connect(near) as receiver, connect(far) as publisher:
        subscription = await receiver.subscribe(TOPIC, selector="probe = 4711")
        start = time.monotonic()
        waiting = asyncio.create_task(anext(aiter(subscription)))
        while not waiting.done():
            await publisher.publish(TOPIC, {"probe": 4711})
            await asyncio.wait([waiting], timeout=PROBE_SECONDS)
        return (time.monotonic() - start) * 1000


def measure(subscriptions: int, forms: list[str], seed: int, routing: Routing, brokers: int = BROKERS) -> Measurement:
    found = Measurement(subscriptions, forms, seed, brokers, routing.routing)
    found.filter_bytes = round(exact_bytes(subscriptions, forms, seed), 1)
    with tempfile.TemporaryDirectory() as folder, Network(Path(folder), routing, brokers) as network:
        network.quiet()
        rested, start = network.look(), time.monotonic()
        time.sleep(IDLE_SECONDS)
        before, seen = network.look(), network.seen()
        idle = [
            (cpu - earlier) / (time.monotonic() - start) for (cpu, _), (earlier, _) in zip(before, rested, strict=True)
        ]
        start = time.monotonic()
        after, seen_after = asyncio.run(_load(network, found, requests(subscriptions, forms, Random(seed))))
        idle = [rate * (time.monotonic() - start) for rate in idle]
        found.lost_links = 2 * (brokers - 1) - sum(len(one["links"]) for one in seen_after)
    sent = [sum(link["sent_bytes"] for link in one["links"].values()) for one in (*seen, *seen_after)]
    carried = sum(sent[brokers:]) - sum(sent[:brokers])
    found.link_bytes = round(carried / max(1, brokers - 1) / subscriptions, 1)
    rows = [
        {
            "cpu_us": round((cpu - cpu_before - rest) / subscriptions * 1e6, 2),
            "memory_mib": round((resident - resident_before) / 2**20, 1),
            "resident_mib": round(resident / 2**20, 1),
            "rows": one["scheme"].get("rows", one["scheme"].get("entries", 0)),
        }
        for (cpu, resident), (cpu_before, resident_before), rest, one in zip(
            after, before, idle, seen_after, strict=True
        )
    ]
    found.advertising, found.others = rows[0], rows[1:]
    return found


async def _load(network: Network, found: Measurement, wanted: Iterator[Subscribe]) -> tuple[Looks, Seen]:
    """Subscribe, and look at the brokers while the subscriptions last."""
    first, last = network.members[0].url(), network.members[-1].url()
    async with Subscriber(first) as subscriber:
        await subscriber.subscribe(wanted)
        if len(network.members) > 1:
            found.effective_ms = round(await effective_ms(first, last))
        await asyncio.to_thread(network.quiet)
        return network.look(), await asyncio.to_thread(network.seen)


def show(found: Measurement) -> None:
    columns = ("broker", "CPU µs/subscription", "memory MiB", "resident MiB", "rows")
    rows = [(name, *one.values()) for name, one in (("1", found.advertising), *zip("2345", found.others, strict=False))]
    table(f"{found.subscriptions} subscriptions ({', '.join(found.forms)}) at broker 1", columns, rows)
    print(f"  exact filter: {found.filter_bytes} bytes; on each link: {found.link_bytes} bytes a subscription")
    print(f"  effective at the farthest broker after {found.effective_ms} ms; links lost: {found.lost_links}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--subscriptions", type=int, default=100_000)
    parser.add_argument("--forms", nargs="+", choices=(*FORMS, *ORDERED), default=list(FORMS))
    parser.add_argument("--routing", choices=("bdrp", "covering"), default="bdrp")
    parser.add_argument("--brokers", type=int, default=BROKERS)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--save", action="store_true", help="write bench/results/interests.json")
    arguments = parser.parse_args()
    found = measure(
        arguments.subscriptions, arguments.forms, arguments.seed, Routing(arguments.routing), arguments.brokers
    )
    show(found)
    if arguments.save:
        print("written to", save("interests", asdict(found)))


if __name__ == "__main__":
    main()
