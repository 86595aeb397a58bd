"""The store in one SQLite file: a log of batches (`tidings.store.log.store`) with an index in memory.

    table batch    1 row = 1 batch
    table state    and its copy

SQLite does what it is good at: the transaction (write-ahead log, one fsync at each commit) and the reuse of pages. What
a batch holds is packed, checked and found by the log. It is not done for speed: a bare table with one row per message
takes as much CPU in large batches and less in small ones (`bench/store.py`), but has none of its guarantees.
The write-ahead log beside the file stays below about 64 MiB and one batch. The file never shrinks; its free pages are
reused.

What is guaranteed
- `append` returns after the fsync of the write-ahead log. After a crash of the process or the machine every batch
  that returned is there, any other is there completely or not at all (tests/integration/broker/test_crash.py).
- `append` raises StoreError: the batch is not in the store, now or later, with one exception: when the disk fails
  in the *fsync*, the bytes may have arrived; if the process dies before the next `append`, the batch may come back.
- Damage is noticed when the store is opened (all checksums and SQLite's structure are checked) and when a message is
  read; it is never passed on. A flipped bit inside a batch costs the record it hits, in the write-ahead log too; but
  its last transaction is dropped as a whole, it cannot be told from one that a power failure tore (`wal`).
  Where SQLite's own pages are hit, the file is copied batch by batch (`salvage`) and the old one is kept beside
  it with the ending `.damaged`: that costs the batches whose cells are on the page, or below it if it is an interior
  page; batches have no gaps in their numbers, so what is missing is known and reported.
- Cut off is not the same as damaged: if the *end* of the write-ahead log is missing, no one can tell that from a crash
  before it was written. The batches before the cut are there, those behind it are gone without a report. But that the
  file or the whole log is gone is noticed (`lock`), and without its file the log is read as far as it goes.
- What lets go of messages can be written on a full disk too: some megabytes are kept in reserve for it (`reserve`).
- One process at a time; a lock file beside the store says so.

All calls may come from any thread, one at a time.
"""

import os
import time
from dataclasses import dataclass
from pathlib import Path

from tidings.errors import StoreError, UsageError
from tidings.store.log.store import LogLimits, LogStore
from tidings.store.sqlite.errors import translated
from tidings.store.sqlite.file import SqliteFile
from tidings.store.sqlite.lock import StoreLock

BREATH_SECONDS = 0.001  # between parts of a backup


@dataclass(frozen=True, slots=True)
class StoreLimits(LogLimits):
    """Those of the log, and of the file."""

    checkpoint_bytes: int = 4 << 20  # of write-ahead log before `maintain` copies it into the file
    checkpoint_bytes_max: int = 64 << 20  # before `append` does
    reserve_bytes: int = 4 << 20  # of disk, for what makes room on a full one


class SqliteStore(LogStore[SqliteFile]):
    def __init__(
        self, path: str | os.PathLike[str], limits: StoreLimits | None = None, lock: StoreLock | None = None
    ) -> None:
        """`lock`: the caller's, who holds it already (`place`)."""
        limits = limits or StoreLimits()
        super().__init__(limits)
        with translated():
            self._file = SqliteFile(
                Path(path),
                self._load,
                self._damaged,
                reserve_bytes=limits.reserve_bytes,
                checkpoint_bytes=limits.checkpoint_bytes,
                checkpoint_bytes_max=limits.checkpoint_bytes_max,
                lock=lock,
            )

    def backup(self, path: Path) -> None:
        """Write a copy of the store, as it is when this returns, to a file that is not there yet; from a thread of its
        own. Batches are written meanwhile, between parts of the copy."""
        if path.exists():
            raise UsageError("E_STORE_EXISTS", f"{path} is there already; give another name")
        with self._use:
            self._file.copy_to(path, self._let_others)

    def _let_others(self) -> None:
        """Between parts of a backup."""
        self._mutex.release()
        time.sleep(BREATH_SECONDS)
        self._mutex.acquire()
        if self._closed:
            raise StoreError("E_STORE_CLOSED", "the store was closed during its backup")
