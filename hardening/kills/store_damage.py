"""Damaged stores: cut off at every byte of the last records, with flipped bits, and without one of their files.

    python -m hardening.kills.store_damage 1000 [SEED]       # number of flipped bits; cuts at all bytes of the last
    page

A store whose log was cut off holds the batches before the cut, whole. After a flipped bit the store says that something
is damaged, or nothing is; what it still has is right to the byte; and a bit in a record costs that record only. If its
file is cut off, empty or gone, the store says so, and has what is in the log and the batches before the cut.
"""

import random
import shutil
import sqlite3
import sys
import tempfile
from contextlib import closing
from functools import cached_property
from pathlib import Path

from hardening.contracts.store import check_same
from hardening.kills.store_writer import LIMITS, batch
from hardening.record import noted, times
from tidings.delivery.batch_codec import scan
from tidings.delivery.store import MemoryStore, Store, Stored
from tidings.store.sqlite.salvage import PAGE_BYTES
from tidings.store.sqlite.store import SqliteStore

BATCHES = 25
EVERY_BYTES, COARSE_BYTES = 4200, 977  # cut at each of the last bytes (a page of the log), before at some
STORE, LOG, LOCK, RESERVE = "store.db", "store.db-wal", "store.db.lock", "store.db.reserve"
FIRST_PAGES = 6  # with the roots of the tables: of a file that is cut off there nothing can be found
SAMPLE_BYTES, SAMPLE_STEP = 24, 500  # by which a batch is found in the file: several on each page


class Damaged:
    """Two copies of a store: one whose batches are in SQLite's log still, one with all of them in its file."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.seed = folder, seed
        self.log_sizes: list[int] = []  # after each batch
        for name in ("log", "file"):
            (folder / name).mkdir()
        store = SqliteStore(folder / STORE)
        for number in range(1, BATCHES + 1):
            store.append(batch(seed, number))
            self.log_sizes.append((folder / LOG).stat().st_size)
        for ending in (STORE, LOG, LOCK, RESERVE):
            shutil.copy(folder / ending, folder / "log")
        store.close()
        for ending in (STORE, LOCK, RESERVE):
            shutil.copy(folder / ending, folder / "file")
        self.messages = {
            record.seq: record.message_bytes
            for number in range(1, BATCHES + 1)
            for record in batch(seed, number)
            if isinstance(record, Stored)
        }
        self._models: dict[int, MemoryStore] = {}

    def model(self, count: int) -> MemoryStore:
        """The truth after this number of batches."""
        if count not in self._models:
            self._models[count] = MemoryStore()
            for number in range(1, count + 1):
                self._models[count].append(batch(self.seed, number))
        return self._models[count]

    def copy(self, name: str) -> Path:
        target = self.folder / "copy"
        shutil.rmtree(target, ignore_errors=True)
        return Path(shutil.copytree(self.folder / name, target)) / STORE

    def cut(self, size: int) -> None:
        """Cut the log to this number of bytes."""
        path = self.copy("log")
        with (path.parent / LOG).open("r+b") as file:
            file.truncate(size)
        store = SqliteStore(path, LIMITS)
        found = int(store.recover().notes.get("batch", b"0"))
        whole = sum(end <= size for end in self.log_sizes)
        assert found >= whole, f"cut at {size}: {whole} batches were written, {found} are there"
        check_same(store, self.model(found), torn=True)
        store.close()

    def flip(self, name: str, at: int, bit: int) -> bool:
        """One bit is another; whether that was noticed."""
        path = self.copy(name)
        part = path if name == "file" else path.parent / LOG
        data = bytearray(part.read_bytes())
        data[at] ^= 1 << bit
        part.write_bytes(data)
        store = SqliteStore(path, LIMITS)
        try:
            self._judge(store, f"{name}, byte {at}, bit {bit}")
            return bool(store.recover().damaged)
        finally:
            store.close()

    def lose(self, name: str, part: str, size: int | None) -> None:
        """Cut one file to this number of bytes; None: remove it."""
        path, where = self.copy(name), f"{name}, {part} of {size} bytes"
        hit = path.parent / part
        if size is None:
            hit.unlink()
        else:
            with hit.open("r+b") as file:
                file.truncate(size)
        store = SqliteStore(path, LIMITS)
        try:
            self._judge(store, where)
            lost, damaged = self._lost(store), store.recover().damaged
        finally:
            store.close()
        if part == LOG:
            assert damaged, f"{where}: nothing was said"
        elif part in (LOCK, RESERVE):
            assert not lost | set(damaged), f"{where}: {damaged}"
        else:
            assert damaged or (name == "log" and size is not None and size >= PAGE_BYTES), f"{where}: nothing was said"
            safe = set(self.messages) if name == "log" else self._before(size or 0)
            assert not lost & safe, f"{where}: {len(lost & safe)} messages are lost that were not hit"

    def _lost(self, store: SqliteStore) -> set[int]:
        return {seq for _, seq in _waiting(self.model(BATCHES)) - _waiting(store)}

    def _before(self, size: int) -> set[int]:
        """The messages of the batches that lie before this byte of the file."""
        if size < FIRST_PAGES * PAGE_BYTES:
            return set()
        return {seq for end, seqs in self._ends for seq in seqs if end <= size}

    @cached_property
    def _ends(self) -> list[tuple[int, list[int]]]:
        """Of each batch: where the last page with something of it ends, and its messages."""
        path = self.copy("file")
        content = path.read_bytes()
        with closing(sqlite3.connect(path)) as db:
            blobs = [blob for (blob,) in db.execute("SELECT payload FROM batch")]
        found = []
        for blob in blobs:
            places = [content.rfind(blob[at : at + SAMPLE_BYTES]) for at in range(0, len(blob), SAMPLE_STEP)]
            last = content.rfind(blob[-SAMPLE_BYTES:])
            if last >= 0:  # or its end lies on two pages
                found.append(((max(*places, last) // PAGE_BYTES + 1) * PAGE_BYTES, scan(blob).seqs.tolist()))
        return found

    def _judge(self, store: SqliteStore, where: str) -> None:
        state = store.recover()
        seqs = sorted({seq for waiting in state.waiting.values() for seq in waiting.seqs})
        assert store.read(seqs) == [self.messages[seq] for seq in seqs], f"{where}: a message is not what it was"
        found, expected = _waiting(store), _waiting(self.model(BATCHES))
        assert state.damaged or found == expected, f"{where}: changed without a word"
        if {damage.reason for damage in state.damaged} == {"checksum differs"}:
            lost = {seq for _, seq in expected - found}
            assert len(lost) <= len(state.damaged), f"{where}: {len(lost)} messages for {len(state.damaged)} records"


def _waiting(store: Store) -> set[tuple[int, int]]:
    """Mailbox and message of each that waits."""
    return {(box, seq) for box, waiting in store.recover().waiting.items() for seq in waiting.seqs}


def losses(stores: Damaged, rng: random.Random, step: int) -> int:
    """Cut off or remove each file of a store; returns how often."""
    done: list[tuple[str, str, int | None]] = [("log", LOG, size) for size in (None, 0, 1, PAGE_BYTES)]
    for name in ("log", "file"):
        size = (stores.folder / name / STORE).stat().st_size
        pages = range(0, size, step * PAGE_BYTES)
        anywhere = [rng.randrange(size) for _ in pages]
        done += [(name, part, None) for part in (STORE, LOCK, RESERVE)]
        done += [(name, STORE, at) for at in (0, 1, 100, PAGE_BYTES - 1, *pages, *anywhere, size - 1)]
        done += [(name, LOCK, 0), (name, RESERVE, 0)]
    for name, part, left in done:
        stores.lose(name, part, left)
    return len(done)


def damage(flips: int, seed: int, *, cut_step: int = 1) -> tuple[int, int]:
    """Returns the numbers of cuts and noticed flips; an AssertionError says where it went wrong."""
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        stores = Damaged(Path(folder), seed)
        first, end = stores.log_sizes[-2:]
        late = max(first, end - EVERY_BYTES)
        sizes = [*range(first, late, COARSE_BYTES), *range(late, end + 1, cut_step)]
        for size in sizes:
            stores.cut(size)
        noticed = 0
        for number in range(flips):
            name = ("file", "log")[number % 2]
            length = (Path(folder) / name / (STORE if name == "file" else LOG)).stat().st_size
            noticed += stores.flip(name, rng.randrange(length), rng.randrange(8))
        lost = losses(stores, rng, min(cut_step, 16))
    return len(sizes) + lost, noticed


def main(arguments: list[str]) -> None:
    if not 1 <= len(arguments) <= 3 or not all(one.isdecimal() for one in arguments[:2]):
        sys.exit("usage: python -m hardening.kills.store_damage FLIPS [SEED [RESULTS]]")
    flips, seed = times(arguments[0]), int(arguments[1]) if arguments[1:] else 1
    results = arguments[2] if arguments[2:] else None

    def run() -> dict[str, int]:
        cuts, noticed = damage(flips, seed)
        return {"cuts": cuts, "noticed": noticed}

    found = noted(results, "damaged stores", run, flips=flips, seed=seed)
    cuts, noticed = found["cuts"], found["noticed"]
    sys.stdout.write(
        f"{cuts} cuts and {flips} flipped bits ({noticed} of them hit something), seed {seed}: all right\n"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
