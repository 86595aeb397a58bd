"""Records per second through the SQLite store, every batch on disk (fsync) before the next one begins.

Each cycle appends a batch of messages together with the acknowledgement of the batch before, as a broker does under
steady load. The reference is the obvious table: one row per message, inserted and deleted in one transaction per
batch; it has no checksums, no records as objects, and knows one mailbox per message only.
Run: python -m bench.store [--folder DIR] [--waiting 1000000]
"""

import argparse
import os
import resource
import sqlite3
import tempfile
import time
from pathlib import Path

from tidings.delivery.batch_codec import Head, pack
from tidings.delivery.store import Acked, MailboxAdded, Stored
from tidings.store.sqlite.store import SqliteStore

ROUNDS = 3


def fsync_us(folder: Path) -> float:
    """The median of one page written and synced."""
    times = []
    file = os.open(folder / "probe", os.O_RDWR | os.O_CREAT)
    for turn in range(200):
        os.pwrite(file, os.urandom(4096), 4096 * (turn % 64))
        start = time.perf_counter()
        os.fdatasync(file)
        times.append(time.perf_counter() - start)
    os.close(file)
    return sorted(times)[len(times) // 2] * 1e6


def store_rate(path: Path, batch: int, size: int, cycles: int) -> tuple[float, float]:
    """Messages per second, each stored and acknowledged, and CPU µs a message; the best of a few rounds."""
    store = SqliteStore(path)
    store.append([MailboxAdded(1, "queue:bench", "queue")])
    message, seq, best, cpu = bytes(size), 0, 0.0, 1e9
    acked = Acked(1, ())
    for _ in range(ROUNDS):
        start, start_cpu = time.perf_counter(), time.thread_time()
        for _ in range(cycles):
            seqs = tuple(range(seq + 1, seq + batch + 1))
            store.append([acked, *[Stored(one, message, (1,)) for one in seqs]])
            seq, acked = seq + batch, Acked(1, seqs)
        best = max(best, batch * cycles / (time.perf_counter() - start))
        cpu = min(cpu, (time.thread_time() - start_cpu) / (batch * cycles) * 1e6)
        while store.maintain():
            pass
    store.close()
    return best, cpu


def rows_rate(path: Path, batch: int, size: int, cycles: int) -> tuple[float, float]:
    db = sqlite3.connect(path, isolation_level=None)
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "locking_mode=EXCLUSIVE", "secure_delete=OFF"):
        db.execute(f"PRAGMA {pragma}").fetchall()
    db.execute("CREATE TABLE message (seq INTEGER PRIMARY KEY, mailbox INTEGER, body BLOB)")
    message, seq, best, cpu = bytes(size), 0, 0.0, 1e9
    for _ in range(ROUNDS):
        start, start_cpu = time.perf_counter(), time.thread_time()
        for _ in range(cycles):
            db.execute("BEGIN IMMEDIATE")
            db.executemany("DELETE FROM message WHERE seq = ?", ((one,) for one in range(seq - batch + 1, seq + 1)))
            rows = ((one, 1, message) for one in range(seq + 1, seq + batch + 1))
            db.executemany("INSERT INTO message VALUES (?, ?, ?)", rows)
            db.execute("COMMIT")
            seq += batch
        best = max(best, batch * cycles / (time.perf_counter() - start))
        cpu = min(cpu, (time.thread_time() - start_cpu) / (batch * cycles) * 1e6)
    db.close()
    return best, cpu


def pack_us() -> float:
    records = [Stored(seq, bytes(100), (1,)) for seq in range(1, 1001)]
    times = []
    for _ in range(20):
        start = time.thread_time()
        pack(Head(1), records)
        times.append(time.thread_time() - start)
    return min(times) * 1e3


def opening(path: Path, count: int, size: int) -> None:
    store = SqliteStore(path)
    store.append([MailboxAdded(1, "queue:bench", "queue")])
    message = bytes(size)
    for start in range(1, count, 1000):
        store.append([Stored(seq, message, (1,)) for seq in range(start, start + 1000)])
        store.maintain()
    store.close()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start_s = time.perf_counter()
    store = SqliteStore(path)
    waiting = store.recover().waiting[1]
    took = time.perf_counter() - start_s
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    mib = path.stat().st_size / 2**20
    print(f"open with {len(waiting)} waiting of {size} B ({mib:.0f} MiB): {took:.2f} s, {grown:.0f} MiB more memory")
    start_s = time.perf_counter()
    store.read(waiting.seqs[len(waiting) // 2 : len(waiting) // 2 + 256].tolist())
    print(f"  page in 256 messages: {(time.perf_counter() - start_s) * 1e3:.1f} ms")
    store.close()
    path.unlink()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, help="where to measure; the disk matters")
    parser.add_argument("--waiting", type=int, default=1_000_000, help="messages in the store to be opened")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        opening(folder / "open.db", options.waiting, 100)  # first: the peak of memory must be its own
        print(f"pack: {pack_us():.2f} µs a message")
        print("batch  bytes   fsync µs      store/s   CPU µs   row per message/s   CPU µs   ratio")
        for size in (100, 1000):
            for batch, cycles in ((1, 300), (10, 200), (100, 100), (1000, 40)):
                sync = fsync_us(folder)  # each time: on a shared disk it varies more than anything else
                ours, cpu = store_rate(folder / f"{batch}-{size}.db", batch, size, cycles)
                rows, rows_cpu = rows_rate(folder / f"{batch}-{size}.rows", batch, size, cycles)
                left = f"{batch:5}  {size:5} {sync:10.0f} {ours:12.0f} {cpu:8.1f}"
                print(f"{left} {rows:19.0f} {rows_cpu:8.1f} {ours / rows:7.2f}")
        opening(folder / "open.db", options.waiting // 2, 1000)


if __name__ == "__main__":
    main()
