"""The store's file, through SQLite: batches written in transactions, on a disk that may be full, and messages read.

A batch goes to the write-ahead log; the log is copied into the file when it is long enough (`checkpoint`). On a full
disk either the reserve is used, for what frees space, or the log is emptied, whose place may be all that is missing
(`reserve`). A file that turns out to be damaged when it is opened is mended or rebuilt (`salvage`).
"""

import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from tidings.delivery.store import Damage
from tidings.errors import StoreError
from tidings.segments.durable import sync_directory
from tidings.store.log.page import BatchPage
from tidings.store.log.state import TABLES, VERSION_KEY, StateChange
from tidings.store.sqlite import salvage
from tidings.store.sqlite.errors import NOT_DAMAGED, cannot_open, hindrance, is_full, translate, translated
from tidings.store.sqlite.lock import StoreLock
from tidings.store.sqlite.reserve import Reserve

INSERT = "INSERT INTO batch VALUES (?, ?)"
CLAIM_BYTES = 256 << 10  # of log, before it is looked whether the file has room for it
COPY_PAGES = 256  # of a backup, before others may write
CELL_BYTES = 64  # more than what SQLite needs of a page for itself
T = TypeVar("T")


class SqliteFile:
    def __init__(
        self,
        path: Path,
        load: Callable[[Sequence[Mapping[object, object]], Iterator[tuple[int, bytes]]], None],
        damaged: list[Damage],
        *,
        reserve_bytes: int,
        checkpoint_bytes: int,
        checkpoint_bytes_max: int,
        lock: StoreLock | None = None,
    ) -> None:
        """`load` reads what it holds, twice if it had to be rebuilt; what is damaged goes on the list. A lock that is
        given stays with the caller."""
        self._path = path
        self._load = load
        self._damaged = damaged
        self._checkpoint_bytes, self._checkpoint_bytes_max = checkpoint_bytes, checkpoint_bytes_max
        self.log_bytes = 0  # written since the last checkpoint
        self._unclaimed_bytes = 0  # written since it was last looked whether the file has room for the log
        self._room = Reserve(path, reserve_bytes)
        self._page = BatchPage(self.batch)
        self._lock, self._own_lock = lock or StoreLock(path), lock is None
        try:
            damaged += salvage.missing(path, made=self._lock.made, logged=self._lock.logged)
            self._db = self._with_reserve(self._open)
            self._room.open()
            self._claim_all()
        except BaseException:
            self._unlock()
            raise
        self._lock.opened()

    def close(self) -> None:
        try:
            with suppress(sqlite3.Error):  # then the log stays, and the next process reads it
                self._with_reserve(self._empty_log)
            self._db.close()
        finally:
            self._room.close()
            self._unlock()

    def _unlock(self) -> None:
        if self._own_lock:
            self._lock.close()

    # --- opening ---

    def _open(self) -> sqlite3.Connection:
        self._damaged += salvage.mend(self._path)
        try:
            if not salvage.is_cut(self._path, made=self._lock.made):
                return self._opened()
        except sqlite3.DatabaseError as error:
            if getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF in NOT_DAMAGED:
                raise
            if not self._lock.made and not salvage.is_store(self._path):
                raise StoreError("E_STORE_VERSION", f"{self._path} is not a Tidings store") from error
        self._lock.log_emptied()
        self._damaged += salvage.rebuild(self._path)
        return self._opened()

    def _opened(self) -> sqlite3.Connection:
        try:
            db = salvage.connect(self._path)
        except sqlite3.OperationalError as error:
            if not cannot_open(error, self._path):
                raise
            raise StoreError("E_STORE_IO", f"{self._path} cannot be opened{hindrance(self._path)}") from error
        try:
            db.execute(f"PRAGMA wal_autocheckpoint={self._checkpoint_bytes_max // salvage.PAGE_BYTES}")
            self._load_from(db)
        except BaseException:
            db.close()
            raise
        return db

    def _load_from(self, db: sqlite3.Connection) -> None:
        ((verdict,),) = db.execute("PRAGMA quick_check(1)").fetchall()
        if verdict != "ok":
            raise sqlite3.DatabaseError(verdict)
        self._load(_settings(db), _batches(db))

    # --- rows ---

    def settings(self) -> list[dict[object, object]]:
        return _settings(self._db)

    def batches(self) -> Iterator[tuple[int, bytes]]:
        return _batches(self._db)

    def fill(self, settings: Sequence[Mapping[object, object]], batches: Iterator[tuple[int, bytes]]) -> None:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            for table, rows in zip(TABLES, settings, strict=True):
                kept = ((key, record) for key, record in rows.items() if key != VERSION_KEY)
                self._db.executemany(f"INSERT INTO {table} VALUES (?, ?)", kept)
            self._db.executemany(INSERT, batches)
            self._db.execute("COMMIT")
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._lock.log_filled()

    def copy_to(self, path: Path, between: Callable[[], None]) -> None:
        """The whole file as it is at the end, under another name; `between`: called between parts of it."""
        new = path.with_name(path.name + ".new")
        new.unlink(missing_ok=True)
        os.close(os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        target = sqlite3.connect(new, isolation_level=None)
        try:
            self._db.backup(target, pages=COPY_PAGES, progress=lambda *_: between(), sleep=0)
        finally:
            target.close()
        with new.open("rb") as file:
            os.fsync(file.fileno())
        new.replace(path)
        sync_directory(path.parent)

    def _claim_all(self) -> None:
        """Reserve room in the file for the log found at start, which may be larger than the file."""
        ((pages,),) = self._db.execute("PRAGMA page_count").fetchall()
        with suppress(OSError):  # then messages are refused, and the rest goes on
            self._with_reserve(lambda: self._room.claim(pages * salvage.PAGE_BYTES))

    # --- writing ---

    def check(self, *, frees: bool) -> None:
        """The files are there. If the disk was full: before messages are taken again, there is a reserve again."""
        self._room.check()
        if not frees and not self._room.reserved:
            if self._room.due():
                self._make_room()
            if not self._room.reserved:
                raise StoreError("E_STORE_FULL", "the disk is full")

    def has_room(self) -> bool:
        with suppress(StoreError):
            self.check(frees=False)
            return self._room.spacious()
        return False

    def write(
        self, number: int, blob: bytes, changes: Sequence[StateChange], *, delete_before: int, frees: bool
    ) -> None:
        """One transaction: a new batch, old ones deleted (0: none). What frees space may use the reserve."""

        def write() -> None:
            self._unclaimed_bytes += len(blob) + salvage.PAGE_BYTES
            if self._unclaimed_bytes > CLAIM_BYTES:
                self._claim(len(blob))
            if changes or delete_before:
                self._transact(number, blob, changes, delete_before)
            else:
                self._db.execute(INSERT, (number, blob))  # a transaction of its own

        if frees:
            self._with_reserve(write)
        else:
            self._with_room(write)
        self.log_bytes += len(blob) + salvage.PAGE_BYTES
        self._lock.log_filled()
        if not self._room.reserved:
            with suppress(StoreError), translated():  # it is written; room is made another time
                self._make_room()

    def _transact(self, number: int, blob: bytes, changes: Sequence[StateChange], oldest: int) -> None:
        execute = self._db.execute
        try:
            execute("BEGIN IMMEDIATE")
            execute("DELETE FROM batch WHERE number < ?", (oldest,))
            execute(INSERT, (number, blob))
            for change in changes:
                salvage.write(self._db, change)
            execute("COMMIT")
        except sqlite3.Error:
            if self._db.in_transaction:
                execute("ROLLBACK")
            raise

    def tidy(self) -> bool:
        """Copy the log into the file, as far as that goes without waiting."""
        if self.log_bytes > self._checkpoint_bytes:
            self._with_reserve(lambda: self._checkpoint("PASSIVE"))
        return False

    def is_full(self, error: Exception) -> bool:
        return is_full(error)

    def translate(self, error: BaseException) -> None:
        translate(error)

    # --- room ---

    def _claim(self, size: int) -> None:
        """The file must have room for what the log holds, or it can never be copied there on a full disk."""
        ((pages,),) = self._db.execute("PRAGMA page_count").fetchall()
        ((free,),) = self._db.execute("PRAGMA freelist_count").fetchall()
        more = size // (salvage.PAGE_BYTES - CELL_BYTES) if size > CLAIM_BYTES else 0
        self._room.claim((pages + max(0, more - free)) * salvage.PAGE_BYTES)
        self._unclaimed_bytes = 0

    def _with_reserve(self, use: Callable[[], T]) -> T:
        """Carry out work; on a full disk, use the reserve."""
        try:
            return use()
        except (sqlite3.Error, OSError) as error:
            if not is_full(error) or not self._room.release():
                raise
        return use()

    def _with_room(self, use: Callable[[], None]) -> None:
        """Carry out work; on a full disk, empty the log and retry, since its space may suffice. The reserve is for
        emptying it: it must be restored before anything is written."""
        try:
            use()
        except (sqlite3.Error, OSError) as error:
            if not is_full(error) or not self._room.due() or not self._room.release():
                raise
            with suppress(sqlite3.Error):
                self._empty_log()
            if not self._room.restore():
                raise
            use()

    def _make_room(self) -> None:
        """Empty the log into the file, whose place is kept, and take the reserve from what the log had."""
        if not self._room.restore():
            self._empty_log()
            self._room.restore()

    def _empty_log(self) -> None:
        self._lock.log_emptied()
        self._checkpoint("TRUNCATE")

    def _checkpoint(self, mode: str) -> None:
        self._db.execute(f"PRAGMA wal_checkpoint({mode})").fetchall()
        self.log_bytes = 0

    # --- reading ---

    def batch(self, number: int) -> bytes | None:
        """A whole batch; None: it was lost."""
        row = self._db.execute("SELECT payload FROM batch WHERE number = ?", (number,)).fetchone()
        return None if row is None else bytes(row[0])

    def message(self, number: int, start: int, size: int) -> bytes | None:
        """Bytes of a batch, if they are still what they were."""
        return self._page.message(number, start, size)


def _settings(db: sqlite3.Connection) -> list[dict[object, object]]:
    return [dict(db.execute(f"SELECT key, record FROM {table}")) for table in TABLES]


def _batches(db: sqlite3.Connection) -> Iterator[tuple[int, bytes]]:
    return db.execute("SELECT number, payload FROM batch ORDER BY number")
