"""Damaged stores: cut off at every byte of the last records, and with flipped bits.

    python -m tidings.testing.store_damage 1000 [SEED]       # so many flipped bits; cuts at all bytes of the last page

A store that was cut off holds the batches before the cut, whole. After a flipped bit the store says that something is
damaged, or nothing is; what it still has is right to the byte; and a bit in a record costs that record only.
"""

import random
import shutil
import sys
import tempfile
from pathlib import Path

from tidings.broker.sqlite_store import SqliteStore
from tidings.delivery.store import MemoryStore, Stored
from tidings.testing.record import noted, times
from tidings.testing.store import check_same
from tidings.testing.store_writer import LIMITS, batch

BATCHES = 25
EVERY_BYTES, COARSE_BYTES = 4200, 977  # cut at each of the last so many (a page of the log), before at some
STORE, LOG = "store.db", "store.db-wal"


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
        for ending in (STORE, LOG):
            shutil.copy(folder / ending, folder / "log")
        store.close()
        shutil.copy(folder / STORE, folder / "file")
        self.messages = {
            record.seq: record.message_bytes
            for number in range(1, BATCHES + 1)
            for record in batch(seed, number)
            if isinstance(record, Stored)
        }
        self._models: dict[int, MemoryStore] = {}

    def model(self, count: int) -> MemoryStore:
        """The truth after so many batches."""
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
        """Only so many bytes of the log are there."""
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

    def _judge(self, store: SqliteStore, where: str) -> None:
        state, truth = store.recover(), self.model(BATCHES).recover()
        seqs = sorted({seq for waiting in state.waiting.values() for seq in waiting.seqs})
        assert store.read(seqs) == [self.messages[seq] for seq in seqs], f"{where}: a message is not what it was"
        found = {(box, seq) for box, waiting in state.waiting.items() for seq in waiting.seqs}
        expected = {(box, seq) for box, waiting in truth.waiting.items() for seq in waiting.seqs}
        assert state.damaged or found == expected, f"{where}: changed without a word"
        if {damage.reason for damage in state.damaged} == {"checksum differs"}:
            lost = {seq for _, seq in expected - found}
            assert len(lost) <= len(state.damaged), f"{where}: {len(lost)} messages for {len(state.damaged)} records"


def damage(flips: int, seed: int, *, cut_step: int = 1) -> tuple[int, int]:
    """How many cuts and noticed flips there were; an AssertionError says where it went wrong."""
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
    return len(sizes), noticed


def main(arguments: list[str]) -> None:
    if not 1 <= len(arguments) <= 3 or not all(one.isdigit() for one in arguments[:2]):
        sys.exit("usage: python -m tidings.testing.store_damage FLIPS [SEED [RESULTS]]")
    flips, seed = times(arguments[0]), int(arguments[1]) if arguments[1:] else 1
    results = arguments[2] if arguments[2:] else None
    run = lambda: dict(zip(("cuts", "noticed"), damage(flips, seed), strict=True))  # noqa: E731
    found = noted(results, "damaged stores", run, flips=flips, seed=seed)
    cuts, noticed = found["cuts"], found["noticed"]
    sys.stdout.write(
        f"{cuts} cuts and {flips} flipped bits ({noticed} of them hit something), seed {seed}: all right\n"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
