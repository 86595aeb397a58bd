"""Message tracking: ids recorded per second, bytes a message, and what a query costs among many stored filters.

python -m bench.tracking
"""

import tempfile
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.harness import RESULTS, best_seconds, save, table
from bench.paper_configurations import PUBLISHERS, RATE_PER_S, RUNS, TABLE_2, PaperConfiguration
from tidings.model.message_id import MessageId
from tidings.model.tables import HISTORIES
from tidings.segments.archive import SegmentArchive
from tidings.segments.tracking import entry_row
from tidings.segments.writer import SegmentWriter
from tidings.tracking.plan.assistant import best_shape
from tidings.tracking.query.archive import Archive, MemoryArchive
from tidings.tracking.recording.compact import compact
from tidings.tracking.recording.history import (
    BloomHistory,
    BloomSettings,
    FilterEncoding,
    History,
    HistoryEntry,
    HistoryKind,
    Key,
    Mode,
)
from tidings.tracking.recording.recorder import Recorder, TrackingSettings
from tidings.tracking.recording.strategies import AsyncStrategy, RunStrategy, strategy

BATCH = 1000
START_MS = 1_762_000_000_000
SECONDS = 60
KEY = Key(HistoryKind.PUBLISH, 1)


def message_ids(n: int, start_ms: int = START_MS, seed: int = 1) -> NDArray[np.uint8]:
    """Ids of the paper's load: 200 publishers of one broker, 5000 a second."""
    rng, number = np.random.default_rng(seed), np.arange(n, dtype=np.uint64)
    words = np.empty((n, 2), dtype=">u8")
    words[:, 0] = rng.integers(1, PUBLISHERS + 1, n, dtype=np.uint64) << np.uint64(32) | np.uint64(1)
    words[:, 1] = (np.uint64(start_ms) + number * np.uint64(1000) // np.uint64(RATE_PER_S)) << np.uint64(16)
    return words.view(np.uint8).reshape(-1, 16)


def recording() -> list[dict[str, Any]]:
    """Million ids per CPU second through a broker's recorder, in batches of 1000; what is stored is thrown away."""
    ids = message_ids(200_000)
    batches = [ids[start : start + BATCH] for start in range(0, len(ids), BATCH)]
    rows = []
    shapes = [row for row in TABLE_2 if row.persist_s in (0, 1)]
    for row in shapes:
        chosen = strategy(row.strategy, row.settings or BloomSettings(), row.buffer_bytes or 10_000)

        def run(chosen: Any = chosen) -> None:
            recorder = Recorder(1, TrackingSettings(chosen), incarnation=1)
            for number, batch in enumerate(batches):
                recorder.published(batch, START_MS + 200 * number)

        seconds = best_seconds(run)
        rows.append({**describe(row), "million_per_s": len(ids) / seconds / 1e6})
    return rows


def describe(row: PaperConfiguration) -> dict[str, Any]:
    return {"strategy": row.strategy, "buffer": row.buffer_bytes, "accuracy": row.accuracy, "persist_s": row.persist_s}


def replay(history: History, persist_s: int) -> list[HistoryEntry]:
    """A minute of the paper's load in virtual time; T_p counts from the first id that is not stored."""
    ids, stored, due = message_ids(RATE_PER_S * SECONDS), [], 0
    step = RATE_PER_S // 20
    for start in range(0, len(ids), step):
        now_ms = START_MS + 1000 * start // RATE_PER_S
        if due and now_ms >= due:
            stored += history.persist(now_ms)
            due = 0
        full = history.add(ids[start : start + step], now_ms)
        stored += full
        if full or not due:
            due = now_ms + 1000 * persist_s if history.dirty else 0
    return stored + history.close(now_ms)


def storage() -> list[dict[str, Any]]:
    """Bytes a message of H_P: as the paper counts them (rotate; raw and gzip), and what retain leaves and writes."""
    rows = []
    for row in TABLE_2:
        if row.strategy == "none":
            continue
        made: dict[str, Any] = describe(row)
        if row.settings is None:
            entries = replay(AsyncStrategy(row.buffer_bytes).open(KEY), row.persist_s)
            count = sum(entry.count for entry in entries)
            ids, at, gzip = message_ids(count), 0, 0
            for entry in entries:
                gzip += len(zlib.compress(ids[at : at + entry.count].tobytes()))
                at += entry.count
            made |= {"raw": 16.0, "gzip": gzip / count, "kept": sum(len(e.data) for e in entries) / count}
        else:
            s = row.settings
            by_mode = {
                mode: replay(BloomHistory(KEY, BloomSettings(s.capacity, s.bits, s.hashes, mode=mode)), row.persist_s)
                for mode in Mode
            }
            rotated, retained = by_mode[Mode.ROTATE], by_mode[Mode.RETAIN]
            count = sum(entry.count for entry in rotated)
            last = {entry.sequence: entry for entry in retained}
            made |= {
                "full": s.bits / 8 / s.capacity,
                "raw": sum(len(e.data) for e in rotated) / count,
                "gzip": sum(len(zlib.compress(e.data)) for e in rotated) / count,
                "kept": sum(len(e.data) for e in last.values()) / count,
                "written": sum(len(e.data) for e in retained) / count,
            }
        made["stores_per_s"] = len(entries if row.settings is None else rotated) / SECONDS
        rows.append(made)
    entries = replay(RunStrategy().open(KEY), RUNS.persist_s)
    sizes = {
        "raw": sum(len(entry.data) for entry in entries),
        "gzip": sum(len(zlib.compress(entry.data)) for entry in entries),
        "kept": sum(len(entry.data) for entry in compact(entries)),
    }
    count = sum(entry.count for entry in entries)
    rows.append(describe(RUNS) | {name: size / count for name, size in sizes.items()})
    rows[-1]["stores_per_s"] = len(entries) / SECONDS
    return rows


def stored_filters(n: int) -> list[HistoryEntry]:
    """n full filters in a row, each over 500 ms and overlapping the next by half; their bits are shared."""
    shape = BloomSettings(200, 5184, 16, skew_ms=10**6)
    (entry,) = BloomHistory(KEY, shape).add(message_ids(200), START_MS)
    return [
        HistoryEntry(
            KEY,
            i,
            (START_MS + 500 * i, START_MS + 500 * i + 749),
            (),
            200,
            True,
            FilterEncoding.BLOOM,
            entry.data,
            0,
            0,
            1,
        )
        for i in range(n)
    ]


def microseconds(work: Callable[[MessageId], object], n: int, queries: int) -> float:
    rng = np.random.default_rng(1)
    asked = [MessageId(9, 1, START_MS + int(t)) for t in rng.integers(0, 500 * n, queries)]
    return 1e6 / queries * best_seconds(lambda: [work(message) for message in asked], repetitions=3)


def query_row(n: int) -> dict[str, Any]:
    entries = stored_filters(n)
    memory = MemoryArchive()
    memory.store(1, entries)
    recorder = Recorder(1, TrackingSettings(), incarnation=2)
    recorder.start(START_MS)
    row: dict[str, Any] = {"filters": n}
    row["memory_us"] = microseconds(lambda message: recorder.answer(message, memory), n, 2000)
    row["scan_us"] = microseconds(lambda m: [e for e in entries if e.matches(m.ms)], n, max(3, 300_000 // n // 10))
    if n <= 100_000:  # a million need gigabytes of disk and a minute to write
        with tempfile.TemporaryDirectory() as root:
            row |= from_segments(Path(root), entries, recorder)
    return row


def from_segments(root: Path, entries: list[HistoryEntry], recorder: Recorder) -> dict[str, Any]:
    writer = SegmentWriter(root, HISTORIES, "b1")
    for number, start in enumerate(range(0, len(entries), 1000)):
        writer.append([entry_row(1, entry) for entry in entries[start : start + 1000]], START_MS + number)
    start_s = time.thread_time()
    archive: Archive = SegmentArchive(root)
    opened_ms = 1000 * (time.thread_time() - start_s)
    size = sum(path.stat().st_size for path in root.rglob("*.parquet"))
    asked = microseconds(lambda message: recorder.answer(message, archive), len(entries), 200)
    return {"segments_us": asked, "open_ms": opened_ms, "segment_bytes_per_message": size / 200 / len(entries)}


def figure_1() -> list[dict[str, float]]:
    """The least false-positive probability for this number of bits per id."""
    bits = 1 << 20
    rows = []
    for exponent in np.arange(-1.0, -8.01, -0.25):
        n, hashes = best_shape(bits, 10**exponent)
        rows.append({"fpp": float(10**exponent), "bits_per_message": bits / n, "hashes": hashes})
    return rows


def plot(
    path: Path, queries: list[dict[str, Any]], stored: list[dict[str, Any]], shapes: list[dict[str, float]]
) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, (one, two, three) = plt.subplots(1, 3, figsize=(17, 5))
    for name, label in (
        ("memory_us", "index in memory"),
        ("segments_us", "segments on disk"),
        ("scan_us", "plain scan"),
    ):
        found = [(row["filters"], row[name]) for row in queries if name in row]
        one.loglog(*zip(*found, strict=True), "o-", label=label)
    one.set(xlabel="stored filters of one history", ylabel="CPU time of a query [µs]", title="Cost of a query")
    one.legend()
    labels = [f"{r['strategy']} {r['buffer'] // 1000}k {r['accuracy']} {r['persist_s']}s" for r in stored]
    at = np.arange(len(stored))
    for shift, (name, label) in enumerate(
        (("raw", "rotate, raw"), ("gzip", "rotate, gzip"), ("kept", "retain, last copies; ids packed"))
    ):
        two.barh(at + 0.27 * (shift - 1), [row[name] for row in stored], 0.27, label=label)
    two.set_yticks(at, labels, fontsize=7)
    two.invert_yaxis()
    two.set(xlabel="bytes a message", title="Storage of H_P (paper: Figures 4 and 5)")
    two.legend()
    three.semilogy([r["bits_per_message"] for r in shapes], [r["fpp"] for r in shapes], "o-")
    three.set(xlabel="bits a message, m/n", ylabel="false-positive probability", title="Accuracy (paper: Figure 1)")
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def main() -> None:
    speeds = recording()
    columns: tuple[str, ...] = ("strategy", "buffer", "accuracy", "million_per_s")
    table("million ids recorded per CPU second, batches of 1000", columns, [[r[c] for c in columns] for r in speeds])
    stored = storage()
    columns = ("strategy", "buffer", "accuracy", "persist_s", "full", "raw", "gzip", "kept", "written", "stores_per_s")
    table("bytes a message of one history", columns, [[r.get(c, "") for c in columns] for r in stored])
    queries = [query_row(10**exponent) for exponent in (3, 4, 5, 6)]
    columns = ("filters", "memory_us", "segments_us", "scan_us", "open_ms")
    table("µs a query, by filters stored", columns, [[r.get(c, "") for c in columns] for r in queries])
    shapes = figure_1()
    plot(RESULTS / "tracking.png", queries, stored, shapes)
    results = {"recording": speeds, "storage": stored, "queries": queries, "figure_1": shapes}
    print("written to", save("tracking", results))


if __name__ == "__main__":
    main()
