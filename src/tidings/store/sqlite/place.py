"""A store in a SQLite file as a place: its lease is the lock file, which the system releases when a process ends.

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     place = SqlitePlace(Path(folder) / "messages.db")
...     lease, other = place.lease(), place.lease()
...     print(lease.acquire(), other.acquire(), lease.epoch, other.epoch)
...     place.open(lease).close()
...     lease.release()
...     print(other.wait(0.0))
...     other.release()
True False 1 0
True
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tidings.errors import StoreError, UsageError
from tidings.store.lease import Lease
from tidings.store.sqlite.errors import translated
from tidings.store.sqlite.lock import StoreLock
from tidings.store.sqlite.store import SqliteStore

STORE = "messages.db"  # in the data directory of a broker
POLL_SECONDS = 0.05


class FileLease:
    """Held as long as the lock file is locked; nobody can take it away, so it is never lost."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lock: StoreLock | None = None

    @property
    def epoch(self) -> int:
        return 0 if self.lock is None else 1

    def acquire(self) -> bool:
        if self.lock is None:
            try:
                with translated():
                    self.lock = StoreLock(self.path)
            except StoreError as error:
                if error.code != "E_STORE_LOCKED":
                    raise
        return self.lock is not None

    def wait(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while not self.acquire():
            if time.monotonic() >= deadline:
                return False
            time.sleep(min(POLL_SECONDS, seconds))
        return True

    def on_lost(self, callback: Callable[[StoreError], None]) -> None:
        del callback

    def release(self) -> None:
        if self.lock is not None:
            self.lock.close()
            self.lock = None


@dataclass(frozen=True, slots=True)
class SqlitePlace:
    path: Path

    @property
    def name(self) -> str:
        return str(self.path)

    def lease(self) -> FileLease:
        return FileLease(self.path)

    def open(self, lease: Lease) -> SqliteStore:
        if not isinstance(lease, FileLease) or lease.lock is None or lease.path != self.path:
            raise UsageError("E_STORE_LEASE", f"the lease of {self.path} is not held")
        return SqliteStore(self.path, lock=lease.lock)
