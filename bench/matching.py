"""The exact matcher: time per message against the number of conjunctions, beside the kernel's own scan in the same run.

    python -m bench.matching              all sizes up to a million conjunctions; some minutes
    python -m bench.matching --max 100000

Two conjunctions a subscription, so that removing duplicates is part of it; all matching ids are written out. A batch of
1000 messages is decoded, then the clock starts and it is matched, as in a broker. No message is seen twice.
"""

import argparse
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice, pairwise
from typing import Any

import numpy as np

from bench.harness import RESULTS, best_seconds, save, table
from tidings.kernel.codec import MessageBatch
from tidings.matching import IndexedMatcher, LinearMatcher
from tidings.matching.indexed import KernelMatcher
from tidings.matching.workload import Workload

SIZES = (1_000, 10_000, 100_000, 1_000_000)
PAPER = Workload(seed=1, conjunctions=2)
WORKLOADS = {"paper": PAPER, "zipf": replace(PAPER, zipf=1.0), "ranges only": replace(PAPER, ranges_only=True)}
BATCH, WARMING, BATCHES = 1000, 20, 60  # messages a batch; batches to warm up with, and to measure
SCAN_EVALUATIONS = 4_000_000  # conjunctions that the scan looks at in one batch
SCAN_BATCHES = 5
CHANGES = 20_000  # fewer at sizes with fewer subscriptions


def batches(workload: Workload, derived: int, size: int, count: int) -> Iterator[MessageBatch]:
    """Decoded when asked for: a batch then lies where decoding has left it, in the cache."""
    encoded = [workload.encoded_messages(i * size, size) for i in range(count)]
    return (MessageBatch.from_messages(one, derived=derived) for one in encoded)


def fresh_seconds(matcher: KernelMatcher, ready: Iterator[MessageBatch]) -> float:
    """CPU time of the median batch. None is matched twice: a processor learns the branches of a batch it sees again."""
    return float(np.median([best_seconds(lambda one=batch: matcher.match(one), 1) for batch in ready]))  # type: ignore[misc]


def fill(matcher: KernelMatcher, workload: Workload, conjunctions: int) -> float:
    """CPU seconds for adding that many conjunctions."""
    subscriptions = conjunctions // workload.conjunctions
    blobs, ends = workload.encoded_predicates(0, subscriptions)
    start = time.thread_time()
    matcher.add_many(np.arange(subscriptions, dtype=np.uint32), blobs, ends)
    return time.thread_time() - start


def measure(name: str, workload: Workload, conjunctions: int) -> tuple[dict[str, Any], IndexedMatcher]:
    index, scan = IndexedMatcher(), LinearMatcher()
    add_seconds = fill(index, workload, conjunctions)
    fill(scan, workload, conjunctions)
    ready = batches(workload, index.derived_mask, BATCH, WARMING + BATCHES)
    matched = sum(len(index.match(batch)[1]) for batch in islice(ready, WARMING)) / (WARMING * BATCH)
    index_seconds = fresh_seconds(index, ready) / BATCH
    few = max(4, min(BATCH, SCAN_EVALUATIONS // conjunctions))
    ready = batches(workload, index.derived_mask, few, 1 + SCAN_BATCHES)
    scan.match(next(ready))
    scan_seconds = fresh_seconds(scan, ready) / few
    found = {
        "workload": name,
        "conjunctions": conjunctions,
        "us_per_message": index_seconds * 1e6,
        "scan_us_per_message": scan_seconds * 1e6,
        "ratio": scan_seconds / index_seconds,
        "matches_per_message": matched,
        "bytes_per_conjunction": index.memory_bytes / conjunctions,
        "add_us_per_conjunction": add_seconds / conjunctions * 1e6,
    }
    return found, index


def measure_changes(index: IndexedMatcher, workload: Workload, conjunctions: int) -> dict[str, float]:
    """Adding and removing subscriptions at full size while messages keep coming: mean and worst, in microseconds."""
    subscriptions = conjunctions // workload.conjunctions
    blobs, ends = workload.encoded_predicates(subscriptions, min(CHANGES, subscriptions))
    predicates = [blobs[start:end] for start, end in pairwise([0, *ends.tolist()])]
    batch = next(batches(workload, index.derived_mask, 100, 1))
    add_s, remove_s = [], []
    for i, predicate in enumerate(predicates):
        start = time.thread_time()
        index.add_encoded(subscriptions + i, predicate)
        middle = time.thread_time()
        index.remove(i)
        remove_s.append(time.thread_time() - middle)
        add_s.append(middle - start)
        if i % 1000 == 0:
            index.match(batch)
    return {
        "add_us": float(np.mean(add_s)) * 1e6,
        "add_us_max": max(add_s) * 1e6,
        "remove_us": float(np.mean(remove_s)) * 1e6,
        "remove_us_max": max(remove_s) * 1e6,
    }


def measure_crossing() -> float:
    """Microseconds a message for the way from Python into the kernel and back, with nothing to match."""
    index = IndexedMatcher()
    batch = next(batches(PAPER, 0, BATCH, 1))
    loops = 200
    return best_seconds(lambda: [index.match(batch) for _ in range(loops)]) / (loops * BATCH) * 1e6


def plot(rows: list[dict[str, Any]]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 5.5), layout="constrained")
    for name, colour in zip(WORKLOADS, ("tab:blue", "tab:orange", "tab:green"), strict=True):
        mine = [row for row in rows if row["workload"] == name]
        sizes = [row["conjunctions"] for row in mine]
        axes.loglog(sizes, [row["us_per_message"] for row in mine], "o-", color=colour, label=f"index, {name}")
        axes.loglog(
            sizes, [row["scan_us_per_message"] for row in mine], "s--", color=colour, alpha=0.6, label=f"scan, {name}"
        )
    axes.set_xlabel("conjunctions")
    axes.set_ylabel("µs per message (CPU time, one thread)")
    axes.set_title("Exact matching: all matching ids of a decoded message")
    axes.grid(True, which="major", alpha=0.4)
    axes.legend(ncols=2, fontsize="small")
    for suffix in ("png", "svg"):
        figure.savefig(RESULTS / f"matching.{suffix}", dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--max", type=int, default=SIZES[-1], help="largest number of conjunctions")
    largest = parser.parse_args().max
    rows: list[dict[str, Any]] = []
    changes: dict[str, float] = {}
    for name, workload in WORKLOADS.items():
        for size in (one for one in SIZES if one <= largest):
            row, index = measure(name, workload, size)
            rows.append(row)
            if name == "paper" and (size == SIZES[-1] or size * 10 > largest):
                changes = {"conjunctions": size, **measure_changes(index, workload, size)}
            del index
        mine = [row for row in rows if row["workload"] == name]
        table(f"{name} workload", list(row)[1:], [list(row.values())[1:] for row in mine])
    crossing_us = measure_crossing()
    table("changes of subscriptions (2 conjunctions each) at the largest size", list(changes), [list(changes.values())])
    print(f"\nPython to kernel and back, batches of {BATCH}: {crossing_us:.4f} µs a message")
    path = save("matching", {"matching": rows, "changes": changes, "crossing_us_per_message": crossing_us})
    plot(rows)
    print(f"written to {path} and matching.png, matching.svg beside it")


if __name__ == "__main__":
    main()
