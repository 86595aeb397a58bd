"""Cost of a trace: by the brokers on the route, and by the length of the stored history.

    python -m bench.trace            routes of 2 to 8 brokers; 10³ to 10⁶ stored filters
    python -m bench.trace --quick    up to 10⁴ filters

Brokers run in one process, on loopback, with histories on disk; a trace is what a client waits for. Its time is wall
time, the median of many; on a machine that others use too, look at how it grows.
"""

import argparse
import asyncio
import statistics
import tempfile
import time
from pathlib import Path
from random import Random
from typing import Any

from hardening.support.links import BrokerNetwork, eventually

from bench.harness import RESULTS, save, table
from tidings.broker.connections.client_listeners import ListenerSettings
from tidings.broker.server import Broker
from tidings.broker.tracking_thread import TrackingOptions
from tidings.client import Client, connect
from tidings.delivery.store import MemoryStore
from tidings.model.message_id import MessageId
from tidings.node.settings import NodeSettings as NodeSettings
from tidings.protocols.native.session import NativeSession
from tidings.segments.history_store import HistoryStore
from tidings.tracking.recording.attachments import Attachment, AttachmentKind
from tidings.tracking.recording.history import (
    BloomHistory,
    BloomSettings,
    FilterEncoding,
    HistoryEntry,
    HistoryKind,
    Key,
    Mode,
)
from tidings.tracking.recording.recorder import TrackingSettings
from tidings.tracking.recording.strategies import BloomStrategy

TRACES = 60
START_MS = 1_700_000_000_000
PER_SEGMENT = 2000
SMALL = BloomSettings(20, 576, 8, mode=Mode.ROTATE)
QUICK = TrackingSettings(BloomStrategy(BloomSettings(mode=Mode.ROTATE)), persist_ms=100)


async def timed(client: Client, messages: list[MessageId]) -> dict[str, float]:
    """Milliseconds from question to answer."""
    taken = []
    for message in messages:
        began = time.perf_counter()
        await client.trace(message)
        taken.append(1000 * (time.perf_counter() - began))
    return {"median_ms": statistics.median(taken), "best_ms": min(taken), "worst_ms": max(taken)}


async def by_brokers(count: int, root: Path) -> dict[str, Any]:
    edges = [(number, number + 1) for number in range(1, count)]
    async with BrokerNetwork(root, edges, tracking=QUICK) as network:
        await eventually(network.known)
        async with (
            connect(network.url(1)) as publisher,
            connect(network.url(count), client_id="far") as far,
            connect(network.url(count // 2 + 1)) as asker,
        ):
            ticks = await far.subscribe("ticks")
            await eventually(network.known)
            sent = [(await publisher.publish("ticks", {"n": n}, wait=True)).message_id for n in range(TRACES)]
            for _ in sent:
                assert await ticks.receive(20) is not None
            await asyncio.sleep(1.0)  # so that some of it is on disk
            path = await asker.trace(sent[0])
            assert [hop.broker for hop in path.hops] == list(range(1, count + 1))
            assert [one.peer for _, one in path.subscribers] == ["far"]
            return {"brokers": count, **await timed(asker, sent)}


def fill(root: Path, filters: int) -> float:
    """A history of this number of full filters, each over half a second; returns the seconds it took."""
    began = time.perf_counter()
    store = HistoryStore(root, 1)
    store.append([Attachment(AttachmentKind.ERA, "bloom", START_MS - 10_000, True, 1)], [], START_MS)
    store.append([Attachment(AttachmentKind.SUBSCRIBER, "audit", START_MS - 9_000, True, 1)], [], START_MS)
    for start in range(0, filters, PER_SEGMENT):
        entries = [_filter(number) for number in range(start, min(start + PER_SEGMENT, filters))]
        store.append([], entries, START_MS + 500 * start)
    end_ms = START_MS + 500 * filters + 10_000
    store.append([Attachment(AttachmentKind.ERA, "bloom", end_ms, False, 1)], [], end_ms)
    store.close()
    return time.perf_counter() - began


def message_of(number: int) -> MessageId:
    return MessageId(7, 1, START_MS + 500 * number + 10)


def _filter(number: int) -> HistoryEntry:
    """The publisher's and the subscriber's in turn, of the same times."""
    key = Key(HistoryKind.PUBLISH, 1) if number % 2 == 0 else Key(HistoryKind.DELIVER, 1, "audit")
    history = BloomHistory(key, SMALL)
    number -= number % 2
    history.add(bytes(message_of(number)), message_of(number).ms)
    (entry,) = history.close(message_of(number).ms)
    span = (START_MS + 500 * number, START_MS + 500 * number + 1200)
    sequence = number + (key.kind is HistoryKind.DELIVER)
    return HistoryEntry(key, sequence, span, (), 1, True, FilterEncoding.BLOOM, entry.data, span[0], span[1], 1)


async def by_filters(filters: int, root: Path) -> dict[str, Any]:
    seconds = fill(root, filters)
    began = time.perf_counter()
    broker = Broker(NodeSettings(), MemoryStore(), tracking=TrackingOptions(QUICK, root))
    await broker.start([])
    started = time.perf_counter() - began
    port = await broker.listen(ListenerSettings(NativeSession, port=0))
    rng = Random(filters)
    asked = [message_of(2 * rng.randrange(filters // 2)) for _ in range(TRACES)]
    try:
        async with connect(f"tidings://127.0.0.1:{port}") as client:
            path = await client.trace(asked[0])
            assert path.confirmed
            assert [one.peer for _, one in path.subscribers] == ["audit"]
            found = await timed(client, asked)
    finally:
        await broker.stop()
    return {"filters": filters, **found, "start_s": started, "fill_s": seconds}


def plot(path: Path, brokers: list[dict[str, Any]], filters: list[dict[str, Any]]) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, (one, two) = plt.subplots(1, 2, figsize=(12, 5))
    for name in ("median_ms", "best_ms"):
        one.plot([row["brokers"] for row in brokers], [row[name] for row in brokers], "o-", label=name[:-3])
        two.semilogx([row["filters"] for row in filters], [row[name] for row in filters], "o-", label=name[:-3])
    one.set(xlabel="brokers on the route", ylabel="a trace [ms]", title="By the length of the route", ylim=(0, None))
    two.set(xlabel="stored filters", ylabel="a trace [ms]", title="By the length of the history", ylim=(0, None))
    one.legend()
    two.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    brokers, filters = [], []
    for count in (2, 8) if arguments.quick else (2, 3, 4, 5, 6, 7, 8):
        with tempfile.TemporaryDirectory() as root:
            brokers.append(asyncio.run(by_brokers(count, Path(root))))
    table("milliseconds of a trace", tuple(brokers[0]), [list(row.values()) for row in brokers])
    for exponent in (3, 4) if arguments.quick else (3, 4, 5, 6):
        with tempfile.TemporaryDirectory() as root:
            filters.append(asyncio.run(by_filters(10**exponent, Path(root))))
    table("milliseconds of a trace", tuple(filters[0]), [list(row.values()) for row in filters])
    name = "trace_quick" if arguments.quick else "trace"
    plot(RESULTS / f"{name}.png", brokers, filters)
    print("written to", save(name, {"by_brokers": brokers, "by_filters": filters}))


if __name__ == "__main__":
    main()
