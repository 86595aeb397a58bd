"""Messages per second through SQLite's store and PostgreSQL's in one run, beside the database's own commit time.

With 1000 messages unconfirmed a batch holds 1000 messages; one at a time, each batch is one message whose receipt is
waited for. Both stores do what a broker does: a batch with the acknowledgements of the batch before. The bare client
inserts a row of the same size and waits for the commit: what one at a time costs at least. All take turns, and the
median of the turns counts. The server's data lie in the same folder as the file, with fsync.
Run: python -m bench.store_postgresql [--turns 9] [--seconds 0.5]
"""

import argparse
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import psycopg
from hardening.support.postgresql import cluster

from bench.harness import save
from tidings.delivery.store import Acked, MailboxAdded, Record, Store, Stored
from tidings.store.postgresql.options import DatabaseOptions
from tidings.store.postgresql.place import PostgresPlace
from tidings.store.sqlite.store import SqliteStore

SETTINGS = {"shared_buffers": "128MB", "max_connections": "20"}
SIZE = 100


class Load:
    """Steady traffic through one mailbox."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._seq = store.recover().last_seq
        self._acked: Record = Acked(1, ())
        store.append([MailboxAdded(1, "queue:bench", "queue")])

    def once(self, batch: int) -> None:
        seqs = tuple(range(self._seq + 1, self._seq + batch + 1))
        self._store.append([self._acked, *[Stored(seq, bytes(SIZE), (1,)) for seq in seqs]])
        self._seq, self._acked = self._seq + batch, Acked(1, seqs)


class BareClient:
    def __init__(self, url: str) -> None:
        self._db = psycopg.connect(url, autocommit=True)
        self._db.execute("CREATE TABLE bare (number bigserial PRIMARY KEY, payload bytea)")

    def once(self) -> None:
        self._db.execute("INSERT INTO bare (payload) VALUES (%b)", (bytes(SIZE + 100),), prepare=True)


def times(once: Callable[[], None], seconds: float) -> tuple[float, float]:
    """The median time of one call in seconds, and the CPU time of this thread for one."""
    found, end, cpu = [], time.perf_counter() + seconds, time.thread_time()
    while (start := time.perf_counter()) < end:
        once()
        found.append(time.perf_counter() - start)
    return statistics.median(found), (time.thread_time() - cpu) / len(found)


def fsync(folder: Path) -> Callable[[], None]:
    file = os.open(folder / "probe", os.O_RDWR | os.O_CREAT)

    def once() -> None:
        os.pwrite(file, os.urandom(4096), 0)
        os.fdatasync(file)

    return once


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=0.5, help="of each measurement in each turn")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp())
    with cluster(SETTINGS) as server:
        url = server.database()
        place = PostgresPlace(DatabaseOptions(url, 1))
        lease = place.lease()
        assert lease.acquire()
        database, file = place.open(lease), SqliteStore(folder / "store.db")
        measured: dict[str, Callable[[], None]] = {"fsync": fsync(folder), "bare client": BareClient(url).once}
        by_file, by_database = Load(file), Load(database)
        for batch in (1, 1000):
            measured[f"SQLite, {batch}"] = partial(by_file.once, batch)
            measured[f"PostgreSQL, {batch}"] = partial(by_database.once, batch)
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in measured}
        for _ in range(options.turns):
            for name, once in measured.items():
                found[name].append(times(once, options.seconds))
            for store in (database, file):
                while store.maintain():
                    pass
        report(found)
        database.close()
        file.close()
        lease.release()
    shutil.rmtree(folder)


def report(found: dict[str, list[tuple[float, float]]]) -> None:
    wall = {name: statistics.median(one for one, _ in turns) for name, turns in found.items()}
    cpu = {name: statistics.median(one for _, one in turns) for name, turns in found.items()}
    print("                      ms a batch   CPU ms of the store's thread")
    for name in found:
        print(f"{name:<20} {wall[name] * 1e3:>11.3f} {cpu[name] * 1e3:>10.3f}")
    ratios = [a[0] / b[0] for a, b in zip(found["SQLite, 1000"], found["PostgreSQL, 1000"], strict=True)]
    more = [a[0] - b[0] for a, b in zip(found["PostgreSQL, 1"], found["bare client"], strict=True)]
    share, more_ms = statistics.median(ratios), statistics.median(more) * 1e3
    print(f"1000 unconfirmed: {share:.2f} of SQLite's rate")
    print(f"one at a time: {more_ms:.3f} ms more than the bare client's commit")
    batches = {f"{name}, ms": round(seconds * 1e3, 4) for name, seconds in wall.items()}
    save("store_postgresql", {**batches, "share of SQLite's rate": round(share, 3), "more, ms": round(more_ms, 4)})


if __name__ == "__main__":
    main()
