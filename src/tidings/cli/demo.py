"""`tidings demo`: a short tour on this machine, without questions: selectors, the matching kernel, a broker."""

import asyncio
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
import uvloop
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from tidings.broker.server import Broker, Listener
from tidings.broker.sqlite_store import SqliteStore
from tidings.client import connect
from tidings.errors import SelectorError
from tidings.kernel.codec import MessageBatch
from tidings.matching.indexed import IndexedMatcher, LinearMatcher
from tidings.matching.workload import Workload
from tidings.model.selector import Selector
from tidings.node.settings import Settings
from tidings.protocols.native import NativeSession

SIZES = (1_000, 10_000, 100_000)
MESSAGES = 2_000
TICKS = 20_000


def register(app: typer.Typer) -> None:
    app.command("demo")(demo)


def demo(
    output: Annotated[Path, typer.Option(help="Where the picture goes.")] = Path("out/demo"),
) -> None:
    """A short tour: selectors, the matching kernel, a broker on loopback.

    Example: tidings demo --output /tmp/tour
    """
    console = Console()
    show_selectors(console)
    show_matching(console, output)
    uvloop.run(show_broker(console))
    console.print("\nNext: [bold]README.md[/bold] shows how to run a broker and use it from Python.")


def show_selectors(console: Console) -> None:
    console.rule("Selectors")
    table = Table("selector", "message", "answer")
    samples: list[tuple[str, dict[str, object]]] = [
        ("stock = 'XYZ' AND price > 20", {"stock": "XYZ", "price": 50}),
        ("stock = 'XYZ' AND price > 20", {"stock": "XYZ", "price": "fifty"}),
        ("stock = 'XYZ' AND price > 20", {"stock": "XYZ"}),
        ("name LIKE 'T_d%' AND size NOT BETWEEN 1 AND 5", {"name": "Tidings", "size": 9.5}),
    ]
    for text, properties in samples:
        answer = Selector(text).matches(properties)  # type: ignore[arg-type]
        table.add_row(text, str(properties), "unknown" if answer is None else str(answer).lower())
    console.print(table)
    broken = "price > 20 AND stock ="
    try:
        Selector(broken)
    except SelectorError as error:
        console.print(f"  {broken}\n  {' ' * (error.position or 0)}^ {error.reason}", highlight=False)


@dataclass(frozen=True, slots=True)
class Point:
    conjunctions: int
    indexed_us: float
    linear_us: float
    matches: float


def show_matching(console: Console, output: Path) -> None:
    console.rule("The matching kernel")
    workload = Workload(seed=1, conjunctions=2)
    batch = MessageBatch.from_messages(workload.encoded_messages(0, MESSAGES))
    points = []
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("matching a generated stream", total=len(SIZES))
        for size in SIZES:
            points.append(measure(workload, batch, size))
            progress.advance(task)
    table = Table("conjunctions", "µs a message", "messages/s", "scanning them all", "faster by", "matches a message")
    for point in points:
        table.add_row(
            f"{point.conjunctions:,}",
            f"{point.indexed_us:.2f}",
            f"{1e6 / point.indexed_us:,.0f}",
            f"{point.linear_us:.1f} µs",
            f"{point.linear_us / point.indexed_us:.0f} ×",
            f"{point.matches:.0f}",
        )
    console.print(table)
    picture = draw(points, output)
    console.print(f"The curve is in [bold]{picture}[/bold]" if picture else "(no picture: matplotlib is not installed)")


def measure(workload: Workload, batch: MessageBatch, conjunctions: int) -> Point:
    subscribers = conjunctions // 2
    blobs, ends = workload.encoded_predicates(0, subscribers)
    ids = np.arange(subscribers, dtype=np.uint32)
    indexed, linear = IndexedMatcher(), LinearMatcher()
    indexed.add_many(ids, blobs, ends)
    linear.add_many(ids, blobs, ends)
    offsets, _ = indexed.match(batch)  # also warms up
    few = MessageBatch.from_messages(workload.encoded_messages(0, max(20, MESSAGES * 1_000 // conjunctions)))
    return Point(conjunctions, cpu_us(indexed, batch), cpu_us(linear, few), float(offsets[-1]) / len(batch))


def cpu_us(matcher: IndexedMatcher, batch: MessageBatch) -> float:
    """CPU time a message, the best of three."""
    best = float("inf")
    for _ in range(3):
        start = time.thread_time()
        matcher.match(batch)
        best = min(best, time.thread_time() - start)
    return best / len(batch) * 1e6


def draw(points: list[Point], output: Path) -> Path | None:
    try:
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot
    except ImportError:
        return None
    figure, axes = pyplot.subplots(figsize=(7, 4.5), layout="constrained")
    sizes = [point.conjunctions for point in points]
    axes.loglog(sizes, [point.linear_us for point in points], "o--", label="scan")
    axes.loglog(sizes, [point.indexed_us for point in points], "o-", label="index")
    axes.set_xlabel("conjunctions")
    axes.set_ylabel("µs a message")
    axes.set_title("Matching one message against all subscriptions")
    axes.grid(True, which="both", alpha=0.3)
    axes.legend()
    output.mkdir(parents=True, exist_ok=True)
    picture = output / "matching.png"
    figure.savefig(picture, dpi=120)
    pyplot.close(figure)
    return picture


async def show_broker(console: Console) -> None:
    console.rule("A broker on loopback")
    with tempfile.TemporaryDirectory() as folder:
        broker = Broker(Settings(), SqliteStore(Path(folder) / "store.db"))
        await broker.start([])
        port = await broker.listen(Listener(NativeSession, port=0))
        try:
            await trade(console, f"tidings://127.0.0.1:{port}")
        finally:
            await broker.stop()


async def trade(console: Console, url: str) -> None:
    """Publish ticks; some subscribers want some of them."""
    async with connect(url, client_id="demo") as client:
        wanted = {
            "everything": "",
            "XYZ above 50": "stock = 'XYZ' AND price > 50",
            "A or B": "stock IN ('A', 'B')",
        }
        subscriptions = {
            name: await client.subscribe("ticks.>", selector=text, window=10 * TICKS) for name, text in wanted.items()
        }
        audit = await client.subscribe("ticks.>", selector="price = 99", durable="audit", ack="client")
        start = time.perf_counter()
        stocks = ("XYZ", "A", "B", "C")
        for number in range(TICKS):
            stock = stocks[number % len(stocks)]
            await client.publish(f"ticks.{stock.lower()}", {"stock": stock, "price": number % 100}, b"...")
        receipt = await client.publish("ticks.xyz", {"stock": "XYZ", "price": 99}, persistent=True)
        seconds = time.perf_counter() - start
        kept = await audit.receive(timeout=5)
        await asyncio.sleep(0.2)
        table = Table("subscription", "selector", "received")
        for name, subscription in subscriptions.items():
            count = 0
            while subscription.receive_nowait() is not None:
                count += 1
            table.add_row(name, wanted[name] or "(none)", f"{count:,}")
        console.print(table)
        console.print(f"{TICKS:,} messages published from one Python client in {seconds:.1f} s")
        found = kept is not None
        console.print(f"The durable subscription {'kept' if found else 'did not keep'} message {receipt.message_id}")
