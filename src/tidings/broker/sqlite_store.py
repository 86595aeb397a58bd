"""The store in one SQLite file: a log of batches that eats its own tail.

    table batch    1 row = 1 batch as `tidings.delivery.journal` packs it, numbered without gaps: oldest ... newest
    table state    what is small and changes in place: mailboxes, which are attached, notes; two copies of each

SQLite does what it is good at: the transaction (write-ahead log, one fsync at each commit) and the reuse of pages. What
a batch holds is packed, checked and found by ourselves: a checksum for every record, any number of mailboxes for a
message, recovery that reads arrays. It is not done for speed: a bare table with one row per message takes as much
CPU in large batches and less in small ones (`bench/store.py`), but has none of these.

Space. Messages and acknowledgements are appended; nothing is changed in place. An acknowledgement matters only as
long as its message is in the file, and it always comes later in the log. So if batches only ever leave at the oldest
end, an acknowledgement that leaves can have no message left to be about. A batch leaves when nothing in it is live; if
one message stays for long, `_move` writes the live messages of the oldest batches anew at the young end. It begins
when more than half of the file (and 4 MiB) is dead, or when there are too many tiny batches, so the file stays below
about three times what is live plus 8 MiB (and the write-ahead log beside it below about 64 MiB and one batch), and each
byte is rewritten about once for each byte that came in meanwhile. The file never shrinks; its free pages are reused.
(The log-structured file system of Rosenblum and Ousterhout, 1992, section 3.5, with the simplest policy.)

What is guaranteed
- `append` returns after the fsync of the write-ahead log. After a crash of the process or the machine every batch
  that returned is there, every other one as a whole or not at all (`test_crash.py`).
- `append` raises StoreError: the batch is not in the store, now or later, with one exception: when the disk fails
  in the *fsync*, the bytes may have arrived; if the process dies before the next `append`, the batch may come back.
- Damage is noticed when the store is opened (all checksums and SQLite's structure are checked) and when a message is
  read; it is never passed on. A flipped bit inside a batch costs the record it hits, in the write-ahead log too; but
  its last transaction is dropped as a whole, it cannot be told from one that a power failure tore (`sqlite_wal`).
  Where SQLite's own pages are hit, the file is copied batch by batch (`sqlite_salvage`) and the old one is kept beside
  it with the ending `.damaged`: that costs the batches whose cells are on the page, or below it if it is an interior
  page; batches have no gaps in their numbers, so what is missing is known and reported.
- Cut off is not the same as damaged: if the *end* of the write-ahead log is missing, no one can tell that from a crash
  before it was written. The batches before the cut are there, those behind it are gone without a report. But that the
  file or the whole log is gone is noticed (`store_lock`), and without its file the log is read as far as it goes.
- What lets go of messages can be written on a full disk too: some megabytes are kept in reserve for it (`store_room`).
- One process at a time; a lock file beside the store says so.

All calls may come from any thread, one at a time.
"""

import os
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import NamedTuple, TypeVar

import numpy as np

from tidings.broker import sqlite_salvage as salvage
from tidings.broker.store_errors import NOT_DAMAGED, cannot_open, hindrance, is_full, translate, translated
from tidings.broker.store_index import Index
from tidings.broker.store_lock import StoreLock
from tidings.broker.store_room import Room
from tidings.broker.store_state import Change, State
from tidings.delivery.journal import FEW, Head, Ints, layout, outline, pack, scan
from tidings.delivery.store import Acked, Counted, Damage, Record, Recovered, Stored
from tidings.errors import CodecError, StoreError, UsageError

BATCH_BYTES_MAX = 512 << 20
INSERT = "INSERT INTO batch VALUES (?, ?)"
UNSETTLED_MAX = 32  # small batches that are taken note of together
COUNTED_BYTES = 33  # what a delivery count takes in the log
CLAIM_BYTES = 256 << 10  # of log, before it is looked whether the file has room for it
CELL_BYTES = 64  # more than what SQLite needs of a page for itself
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Limits:
    """When housekeeping begins; `append` itself does it at twice the slack."""

    slack_bytes: int = 4 << 20  # waste below this is not worth moving anything
    slack_batches: int = 4096
    small_bytes: int = 64 << 10  # more batches than the slack and one for each of these: they are too small
    move_bytes: int = 1 << 20  # of batches moved in one go; more than `small_bytes`, or they stay too small
    checkpoint_bytes: int = 4 << 20  # of write-ahead log before `maintain` copies it into the file
    checkpoint_bytes_max: int = 64 << 20  # before `append` does
    reserve_bytes: int = 4 << 20  # of disk, for what makes room on a full one


class _Written(NamedTuple):
    """A batch that the file has and the index does not know of yet."""

    number: int
    blob: bytes
    records: Sequence[Record]
    changes: Sequence[Change]
    oldest: int


class SqliteStore:
    def __init__(self, path: str | os.PathLike[str], limits: Limits | None = None) -> None:
        self._path = Path(path)
        self._limits = limits or Limits()
        self._mutex = Lock()
        self._use = _Use(self)
        self._index = Index()
        self._state = State()
        self._damaged: list[Damage] = []
        self._unsound: set[int] = set()  # seqs of messages that went bad since the store was opened
        self._newest = 0
        self._last_seq = 0
        self._log_bytes = 0  # written since the last checkpoint
        self._unclaimed_bytes = 0  # written since it was last looked whether the file has room for the log
        self._room = Room(self._path, self._limits.reserve_bytes)
        self._unsettled: list[_Written] = []
        self._page: tuple[int, bytes, Ints] = (-1, b"", np.empty(0, np.int64))  # the batch read last
        with translated():
            self._lock = StoreLock(self._path)
            try:
                self._damaged += salvage.missing(self._path, made=self._lock.made, logged=self._lock.logged)
                self._db = self._with_reserve(self._open)
                self._room.open()
                self._claim_all()
            except BaseException:
                self._lock.close()
                raise
            self._lock.opened()
        self._closed = False

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
        self._index, self._state = Index(), State()
        try:
            db = salvage.connect(self._path)
        except sqlite3.OperationalError as error:
            if not cannot_open(error, self._path):
                raise
            raise StoreError("E_STORE_IO", f"{self._path} cannot be opened{hindrance(self._path)}") from error
        try:
            db.execute(f"PRAGMA wal_autocheckpoint={self._limits.checkpoint_bytes_max // salvage.PAGE_BYTES}")
            self._load(db)
        except BaseException:
            db.close()
            raise
        return db

    # --- the interface ---

    def append(self, batch: Sequence[Record]) -> None:
        with self._use:
            if not self._few_unsettled():
                self._settle()
            records, changes, last_seq = self._state.prepare(batch, self._last_seq)
            self._room.check()
            frees = not any(type(record) is Stored for record in records)
            if not frees and not self._room.reserved:
                self._check_room()
            oldest = self._index.first if self._unsettled else self._index.dead_until()
            blob = self._write(records, changes, last_seq, oldest, frees=frees)
            self._unsettled.append(_Written(self._newest, blob, records, changes, oldest))

    def recover(self) -> Recovered:
        with self._use:
            self._settle()
            waiting = self._index.all_waiting(self._state.mailboxes)
            boxes = tuple(self._state.mailboxes[number] for number in sorted(self._state.mailboxes))
            attached, counted, notes = self._state.attached, self._state.counted, self._state.notes
            damaged = tuple(self._damaged)
            return Recovered(boxes, waiting, frozenset(attached), dict(counted), dict(notes), self._last_seq, damaged)

    def read(self, seqs: Sequence[int]) -> list[bytes]:
        with self._use:
            self._settle()
            places = self._index.places(np.array(seqs, np.int64))
            if isinstance(places, int):
                if seqs[places] in self._unsound:
                    raise StoreError("E_STORE_DAMAGED", f"message {seqs[places]} is damaged", position=places)
                raise UsageError("E_STORE_SEQ", f"no message {seqs[places]} waits", position=places)
            messages = []
            for position, (number, start, size) in enumerate(places):
                message = self._message(number, start, size)
                if message is None:
                    raise StoreError("E_STORE_DAMAGED", f"message {seqs[position]} is damaged", position=position)
                messages.append(message)
            return messages

    def maintain(self) -> bool:
        with self._use:
            self._settle()
            self._room.check()
            if self._surplus() > 0.5:
                self._move(self._limits.move_bytes)
            elif self._log_bytes > self._limits.checkpoint_bytes:
                self._with_reserve(lambda: self._checkpoint("PASSIVE"))
            return self._surplus() > 0.5 or self._log_bytes > self._limits.checkpoint_bytes

    def close(self) -> None:
        with self._mutex, translated():
            if self._closed:
                return
            try:
                with suppress(sqlite3.Error):  # then the log stays, and the next process reads it
                    self._with_reserve(self._empty_log)
                self._db.close()
            finally:
                self._room.close()
                self._lock.close()
                self._closed = True

    def disk_bytes(self) -> int:
        """What the batches take; the file may be larger, its free pages are used again."""
        with self._use:
            self._settle()
            return self._index.disk_bytes

    # --- writing ---

    def _write(
        self, records: Sequence[Record], changes: Sequence[Change], last_seq: int, oldest: int, *, frees: bool
    ) -> bytes:
        """One transaction: a new batch, those before `oldest` deleted. What frees space may use the reserve."""
        number = self._newest + 1
        blob = pack(Head(number, oldest, last_seq), records)
        if len(blob) > BATCH_BYTES_MAX:
            raise UsageError("E_STORE_BATCH", f"{len(blob)} bytes in one batch, at most {BATCH_BYTES_MAX} are possible")

        def write() -> None:
            self._claim(len(blob))
            if changes or oldest > self._index.first:
                self._transact(number, blob, changes, oldest)
            else:
                self._db.execute(INSERT, (number, blob))  # a transaction by itself

        if frees:
            self._with_reserve(write)
        else:
            self._with_room(write)
        self._newest = number
        self._last_seq = last_seq
        self._log_bytes += len(blob) + salvage.PAGE_BYTES
        self._lock.log_filled()
        if not self._room.reserved:
            with suppress(StoreError), translated():  # it is written; room is made another time
                self._make_room()
        return blob

    def _claim(self, size: int) -> None:
        """The file must have room for what the log holds, or it can never be copied there on a full disk."""
        self._unclaimed_bytes += size + salvage.PAGE_BYTES
        if self._unclaimed_bytes > CLAIM_BYTES:
            ((pages,),) = self._db.execute("PRAGMA page_count").fetchall()
            ((free,),) = self._db.execute("PRAGMA freelist_count").fetchall()
            more = size // (salvage.PAGE_BYTES - CELL_BYTES) if size > CLAIM_BYTES else 0
            self._room.claim((pages + max(0, more - free)) * salvage.PAGE_BYTES)
            self._unclaimed_bytes = 0

    def _with_reserve(self, use: Callable[[], T]) -> T:
        """If the disk is full, with the reserve."""
        try:
            return use()
        except (sqlite3.Error, OSError) as error:
            if not is_full(error) or not self._room.release():
                raise
        return use()

    def _with_room(self, use: Callable[[], None]) -> None:
        """If the disk is full, once more without the log, whose place may be all that is missing. The reserve is for
        emptying it: there must be one again before anything is written."""
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

    def _check_room(self) -> None:
        """The disk was full: before messages are taken again, there must be a reserve again."""
        if self._room.due():
            self._make_room()
        if not self._room.reserved:
            raise StoreError("E_STORE_FULL", "the disk is full")

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
        self._log_bytes = 0

    def _claim_all(self) -> None:
        """What the log held when the store was opened may be more than the file has room for."""
        ((pages,),) = self._db.execute("PRAGMA page_count").fetchall()
        with suppress(OSError):  # then messages are refused, and the rest goes on
            self._with_reserve(lambda: self._room.claim(pages * salvage.PAGE_BYTES))

    def _transact(self, number: int, blob: bytes, changes: Sequence[Change], oldest: int) -> None:
        execute = self._db.execute
        try:
            execute("BEGIN IMMEDIATE")
            execute("DELETE FROM batch WHERE number < ?", (oldest,))
            execute(INSERT, (number, blob))
            for change in changes:
                change.write(self._db)
            execute("COMMIT")
        except sqlite3.Error:
            if self._db.in_transaction:
                execute("ROLLBACK")
            raise

    def _few_unsettled(self) -> bool:
        """Small batches of messages and acknowledgements, whose place in the index the next one need not know."""
        waiting = self._unsettled
        last = waiting[-1] if waiting else None
        return last is None or (len(waiting) < UNSETTLED_MAX and len(last.records) <= FEW and not last.changes)

    def _settle(self) -> None:
        """Take note of the batches written last: when the store is used next, so that `append` returns at once. Of
        small ones several together, for many a message is acknowledged in the next batch and need never be noted."""
        if not self._unsettled:
            return
        batches, self._unsettled = self._unsettled, []
        done = _done_with(batches) if len(batches) > 1 else set()
        for number, blob, records, changes, oldest in batches:
            self._index.forget(oldest)
            if len(records) <= FEW:
                rows, others = outline(len(blob), records, done)
                self._index.add_few(number, rows, len(blob))
            else:
                found = scan(blob, trusted=True)
                self._index.add(found, len(blob))
                others = found.others
            for record in others:
                self._apply(record)
            for mailbox, seq in self._state.apply(changes):
                self._index.leave_all(mailbox, seq)
        if self._surplus() > 1:  # no one calls `maintain`, or there is never a pause
            with suppress(StoreError), translated():  # the batches are safe; room is made another time
                self._move(max(self._limits.move_bytes, 4 * sum(len(one.blob) for one in batches)))

    def _apply(self, record: Record) -> None:
        match record:
            case Acked(mailbox, seqs):
                self._index.leave(mailbox, seqs)
                if self._state.counted:
                    for seq in seqs:
                        self._state.counted.pop((mailbox, seq), None)
            case Counted(mailbox, seq, deliveries):
                if self._index.waits(mailbox, seq):
                    self._state.counted[mailbox, seq] = deliveries
            case _:
                raise AssertionError(f"{record} has no place in the log")

    def _surplus(self) -> float:
        """How much of what the file may carry in vain it does carry; at 1 something must be done."""
        live = self._index.live_bytes + COUNTED_BYTES * len(self._state.counted)
        waste = (self._index.disk_bytes - live) / (2 * (self._limits.slack_bytes + live))
        crowd = self._index.batches / (
            2 * (self._limits.slack_batches + self._index.disk_bytes // self._limits.small_bytes)
        )
        return max(waste, crowd)

    def _move(self, size: int) -> None:
        """Write what is live in the oldest batches anew, so that they can go."""
        last = self._index.oldest(size)
        records: list[Record] = []
        for seq, number, start, length, mailboxes in self._index.live_until(last):
            message = self._message(number, start, length)
            if message is None:  # it must not get a new checksum
                self._unsound.add(seq)
                for mailbox in mailboxes:
                    self._index.leave(mailbox, (seq,))
                continue
            records.append(Stored(seq, message, mailboxes))
            if counted := self._state.counted:
                mine = [mailbox for mailbox in mailboxes if (mailbox, seq) in counted]
                records += [Counted(mailbox, seq, counted[mailbox, seq]) for mailbox in mine]
        oldest = last + 1
        blob = self._write(records, (), self._last_seq, oldest, frees=True)
        self._index.move(scan(blob, trusted=True), len(blob))
        self._index.forget(oldest)

    # --- reading ---

    def _message(self, number: int, start: int, size: int) -> bytes | None:
        """Bytes of a batch, if they are still what they were."""
        if self._page[0] != number:
            (blob,) = self._db.execute("SELECT payload FROM batch WHERE number = ?", (number,)).fetchone()
            try:
                where = layout(blob)
                self._page = (number, blob, where.ends[where.good])
            except CodecError:
                self._page = (number, blob, np.empty(0, np.int64))
        _, blob, ends = self._page
        at = int(np.searchsorted(ends, start + size))
        return blob[start : start + size] if at < len(ends) and ends[at] == start + size else None

    def _load(self, db: sqlite3.Connection) -> None:
        """The state from the file."""
        ((verdict,),) = db.execute("PRAGMA quick_check(1)").fetchall()
        if verdict != "ok":
            raise sqlite3.DatabaseError(verdict)
        self._damaged += self._state.load(db)
        acks: list[Ints] = []
        counted: list[Counted] = []
        oldest, last_seq, numbers = 0, 0, []
        for number, blob in db.execute("SELECT number, payload FROM batch ORDER BY number"):
            numbers.append(number)
            try:
                found = scan(blob)
                if found.head.number != number:
                    raise CodecError("E_BATCH_DAMAGED", f"this is batch {found.head.number}")
            except CodecError as error:
                self._damaged.append(Damage(f"batch lost: {error.reason}", number))
                found = scan(pack(Head(number, oldest, last_seq), []))
            self._damaged += found.damaged
            self._index.add(found, len(blob))
            oldest, last_seq = max(oldest, found.head.oldest), max(last_seq, found.head.last_seq)
            for record in found.others:
                if isinstance(record, Acked):
                    seqs = np.array(record.seqs, np.uint64).astype(np.int64)
                    acks.append(np.stack([np.full_like(seqs, record.mailbox), seqs, np.full_like(seqs, number)]))
                elif isinstance(record, Counted):
                    counted.append(record)
        self._damaged += salvage.gaps(numbers, oldest)
        self._newest, self._last_seq = max(numbers, default=0), last_seq
        self._index.settle(self._state.since, *np.concatenate([np.empty((3, 0), np.int64), *acks], axis=1))
        for one in counted:
            if self._index.waits(one.mailbox, one.seq):
                self._state.counted[one.mailbox, one.seq] = one.deliveries

    def _begin(self) -> None:
        """Of each use."""
        if self._closed:
            raise StoreError("E_STORE_CLOSED", "the store was closed")


def _done_with(batches: Sequence[_Written]) -> set[int]:
    """The messages of small batches that these bring to one mailbox and take from it again."""
    acked = {
        (record.mailbox, seq)
        for batch in batches
        for record in batch.records
        if type(record) is Acked
        for seq in record.seqs
    }
    return {
        record.seq
        for batch in batches
        if len(batch.records) <= FEW
        for record in batch.records
        if type(record) is Stored and len(record.mailboxes) == 1 and (record.mailboxes[0], record.seq) in acked
    }


class _Use:
    """One use of the store: alone, and with errors that are ours. Not a generator: those cost more."""

    __slots__ = ("_store",)

    def __init__(self, store: SqliteStore) -> None:
        self._store = store

    def __enter__(self) -> None:
        self._store._mutex.acquire()
        try:
            self._store._begin()
        except BaseException as error:
            self._store._mutex.release()
            translate(error)
            raise

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        self._store._mutex.release()
        if error is not None:
            translate(error)
