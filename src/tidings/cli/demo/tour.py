"""The matching tour: what selectors say, and how long it takes to match a message against all of them."""

import time
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure
from rich.table import Table

from tidings.cli.demo.stage import Stage
from tidings.errors import SelectorError
from tidings.kernel.codec import MessageBatch
from tidings.matching.indexed import IndexedMatcher, KernelMatcher, LinearMatcher
from tidings.matching.workload import Workload
from tidings.model.selector import Selector
from tidings.model.values import Value

MESSAGES = 1_000
SAMPLES: list[tuple[str, dict[str, Value]]] = [
    ("stock = 'XYZ' AND price > 20", {"stock": "XYZ", "price": 50}),
    ("stock = 'XYZ' AND price > 20", {"stock": "XYZ", "price": "fifty"}),
    ("stock = 'XYZ' AND price > 20", {"stock": "XYZ"}),
    ("name LIKE 'T_d%' AND size NOT BETWEEN 1 AND 5", {"name": "Tidings", "size": 9.5}),
]
BROKEN = "price > 20 AND stock ="


@dataclass(frozen=True, slots=True)
class Point:
    conjunctions: int
    indexed_us: float
    linear_us: float


def show_matching(stage: Stage) -> None:
    show_selectors(stage)
    workload = Workload(seed=1, conjunctions=2)
    batch = MessageBatch.from_messages(workload.encoded_messages(0, MESSAGES))
    points = [measure(workload, batch, size) for size in stage.scale.conjunctions]
    table = Table("conjunctions", "µs a message", "scanning them all", "faster by")
    for point in points:
        table.add_row(
            f"{point.conjunctions:,}",
            f"{point.indexed_us:.2f}",
            f"{point.linear_us:.1f} µs",
            f"{point.linear_us / point.indexed_us:.0f} ×",
        )
    stage.console.print(table)
    last = points[-1]
    found = f"{last.indexed_us:.1f} µs a message, {last.linear_us / last.indexed_us:.0f} times faster than a scan"
    stage.find(f"matching against {last.conjunctions:,} conjunctions", found)
    stage.highlight(f"{last.indexed_us:.1f} µs", f"to match a message against {last.conjunctions:,} conditions")
    texts = [
        "A subscriber states a selector, such as stock = 'XYZ' AND price > 20. For each message the broker must find "
        "all whose selector holds. An index over attributes and values makes that nearly independent of their number.",
        f"At {last.conjunctions:,} conditions the index is {last.linear_us / last.indexed_us:,.0f} times as fast as "
        "looking at each.",
    ]
    caption = "Processor time for matching one message, by number of conditions. Both axes are logarithmic."
    picture = stage.picture("matching", lambda _: draw(points), caption)
    stage.section("From a message to its subscribers", texts, picture)


def show_selectors(stage: Stage) -> None:
    table = Table("selector", "message", "answer")
    for text, properties in SAMPLES:
        answer = Selector(text).matches(properties)
        table.add_row(text, str(properties), "unknown" if answer is None else str(answer).lower())
    stage.console.print(table)
    try:
        Selector(BROKEN)
    except SelectorError as error:
        stage.tell(f"  {BROKEN}\n  {' ' * (error.position or 0)}^ {error.reason}\n")


def measure(workload: Workload, batch: MessageBatch, conjunctions: int) -> Point:
    subscribers = conjunctions // 2
    blobs, ends = workload.encoded_predicates(0, subscribers)
    ids = np.arange(subscribers, dtype=np.uint32)
    indexed, linear = IndexedMatcher(), LinearMatcher()
    indexed.add_many(ids, blobs, ends)
    linear.add_many(ids, blobs, ends)
    indexed.match(batch)  # warms up
    few = MessageBatch.from_messages(workload.encoded_messages(0, max(20, MESSAGES * 1_000 // conjunctions)))
    return Point(conjunctions, cpu_us(indexed, batch), cpu_us(linear, few))


def cpu_us(matcher: KernelMatcher, batch: MessageBatch) -> float:
    """CPU time a message, the best of three."""
    best = float("inf")
    for _ in range(3):
        start = time.thread_time()
        matcher.match(batch)
        best = min(best, time.thread_time() - start)
    return best / len(batch) * 1e6


def draw(points: list[Point]) -> Figure:
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    sizes = [point.conjunctions for point in points]
    axes.loglog(sizes, [point.indexed_us for point in points], "o-", label="with the index")
    axes.loglog(sizes, [point.linear_us for point in points], "o--", label="each in turn")
    axes.set(xlabel="conditions (conjunctions of selectors)", ylabel="processor time, µs a message")
    axes.grid(visible=True, which="both", alpha=0.3)
    axes.legend()
    return figure
