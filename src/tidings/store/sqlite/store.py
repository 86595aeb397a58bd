"""The store in one SQLite file: a log of batches that eats its own tail.

    table batch    1 row = 1 batch as `tidings.delivery.batch_codec` packs it, numbered without gaps: oldest ... newest
    table state    what is small and changes in place: mailboxes, which are attached, notes; two copies of each

SQLite does what it is good at: the transaction (write-ahead log, one fsync at each commit) and the reuse of pages. What
a batch holds is packed, checked and found by ourselves: a checksum for every record, any number of mailboxes for a
message, recovery that reads arrays. It is not done for speed: a bare table with one row per message takes as much
CPU in large batches and less in small ones (`bench/store.py`), but has none of these.

Space. Messages and acknowledgements are appended; nothing is changed in place. An acknowledgement matters only as
long as its message is in the file, and it always comes later in the log. So if batches only ever leave at the oldest
end, an acknowledgement that leaves can have no message left to be about. A batch leaves when nothing in it is live; if
one message stays for long, `_move` writes the live messages of the oldest batches again at the young end. It begins
when more than half of the file (and 4 MiB) is dead, or when there are too many tiny batches, so the file stays below
about three times what is live plus 8 MiB and the tail (and the write-ahead log beside it below about 64 MiB and one
batch), and each byte is rewritten about once for each byte that came in meanwhile. The file never shrinks; its free
pages are reused.
(The log-structured file system of Rosenblum and Ousterhout, 1992, section 3.5, with the simplest policy.)

What is guaranteed
- `append` returns after the fsync of the write-ahead log. After a crash of the process or the machine every batch
  that returned is there, every other one as a whole or not at all (tests/integration/broker/test_crash.py).
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
- The last batches, the *tail*, stay when all in them is dead (16 384 messages, 4 MiB or 4096 batches, whichever is
  less; not on a full disk), so that a broker that starts knows the last messages, those it is done with too (`recent`).
- What lets go of messages can be written on a full disk too: some megabytes are kept in reserve for it (`reserve`).
- One process at a time; a lock file beside the store says so.

All calls may come from any thread, one at a time.
"""

import os
import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

import numpy as np

from tidings.delivery.batch_codec import Head, heads, pack, scan
from tidings.delivery.store import Counted, Damage, Recent, Record, Recovered, Stored
from tidings.errors import StoreError, UsageError
from tidings.store.sqlite.contents import Contents, Written
from tidings.store.sqlite.errors import is_full, translate, translated
from tidings.store.sqlite.file import SqliteFile
from tidings.store.sqlite.lock import StoreLock
from tidings.store.sqlite.log_tail import TailLimits
from tidings.store.sqlite.state import StateChange

BATCH_BYTES_MAX = 512 << 20
COUNTED_BYTES = 33  # what a delivery count takes in the log


@dataclass(frozen=True, slots=True)
class StoreLimits:
    """Thresholds at which housekeeping begins; `append` itself does it at twice the slack."""

    slack_bytes: int = 4 << 20  # waste below this is not worth moving anything
    slack_batches: int = 4096
    small_bytes: int = 64 << 10  # more batches than the slack and one for each of these: they are too small
    move_bytes: int = 1 << 20  # of batches moved in one go; more than `small_bytes`, or they stay too small
    checkpoint_bytes: int = 4 << 20  # of write-ahead log before `maintain` copies it into the file
    checkpoint_bytes_max: int = 64 << 20  # before `append` does
    reserve_bytes: int = 4 << 20  # of disk, for what makes room on a full one
    tail: TailLimits = field(default_factory=TailLimits)  # that stays when it is dead


class SqliteStore:
    def __init__(
        self, path: str | os.PathLike[str], limits: StoreLimits | None = None, lock: StoreLock | None = None
    ) -> None:
        """`lock`: the caller's, who holds it already (`place`)."""
        self._limits = limits or StoreLimits()
        self._mutex = Lock()
        self._use = _Use(self)
        self._damaged: list[Damage] = []
        self._unsound: set[int] = set()  # seqs of messages that went bad since the store was opened
        with translated():
            self._file = SqliteFile(
                Path(path),
                self._load,
                self._damaged,
                reserve_bytes=self._limits.reserve_bytes,
                checkpoint_bytes_max=self._limits.checkpoint_bytes_max,
                lock=lock,
            )
        self._closed = False

    def _load(self, db: sqlite3.Connection) -> None:
        self._contents = Contents.load(db, self._damaged, self._limits.tail)

    # --- the interface ---

    def append(self, batch: Sequence[Record]) -> None:
        with self._use:
            contents = self._contents
            if not contents.few_unsettled():
                self._settle()
            records, changes, last_seq = contents.state.prepare(batch, contents.last_seq)
            frees = not any(type(record) is Stored for record in records)
            try:
                self._file.check(frees=frees)
                oldest = contents.index.first if contents.unsettled else contents.index.dead_until()
                blob = self._write(records, changes, last_seq, oldest, frees=frees)
            except (StoreError, sqlite3.Error, OSError) as error:
                if is_full(error):
                    contents.index.tail.clear()  # its place is needed
                raise
            contents.unsettled.append(Written(contents.newest, blob, records, changes, oldest))

    def recover(self) -> Recovered:
        with self._use:
            self._settle()
            state, damaged = self._contents.state, tuple(self._damaged)
            waiting = self._contents.index.all_waiting(state.mailboxes)
            boxes = tuple(state.mailboxes[number] for number in sorted(state.mailboxes))
            attached, counted, notes = frozenset(state.attached), dict(state.counted), dict(state.notes)
            return Recovered(boxes, waiting, attached, counted, notes, self._contents.last_seq, damaged)

    def read(self, seqs: Sequence[int]) -> list[bytes]:
        with self._use:
            self._settle()
            places = self._contents.index.places(np.array(seqs, np.int64))
            if isinstance(places, int):
                if seqs[places] in self._unsound:
                    raise StoreError("E_STORE_DAMAGED", f"message {seqs[places]} is damaged", position=places)
                raise UsageError("E_STORE_SEQ", f"no message {seqs[places]} waits", position=places)
            messages = []
            for position, (number, start, size) in enumerate(places):
                message = self._file.message(number, start, size)
                if message is None:
                    raise StoreError("E_STORE_DAMAGED", f"message {seqs[position]} is damaged", position=position)
                messages.append(message)
            return messages

    def recent(self, count: int, size: int) -> list[Recent]:
        with self._use:
            self._settle()
            found: dict[int, Recent] = {}
            for number in range(self._contents.newest, self._contents.index.first - 1, -1):
                blob = self._file.batch(number)
                for record in heads(blob, size) if blob else ():
                    found.setdefault(record.seq, record)
                if len(found) >= count and number <= self._contents.index.last_before_tail:
                    break
            return [found[seq] for seq in sorted(found)[-count:]]

    def maintain(self) -> bool:
        with self._use:
            self._settle()
            self._file.check(frees=True)
            if self._surplus() > 0.5:
                self._move(self._limits.move_bytes)
            elif self._file.log_bytes > self._limits.checkpoint_bytes:
                self._file.checkpoint()
            return self._surplus() > 0.5 or self._file.log_bytes > self._limits.checkpoint_bytes

    def has_room(self) -> bool:
        with self._use:
            return self._file.has_room()

    def close(self) -> None:
        with self._mutex, translated():
            if not self._closed:
                try:
                    self._file.close()
                finally:
                    self._closed = True

    def disk_bytes(self) -> int:
        """Bytes of all batches; the file may be larger, its free pages are reused."""
        with self._use:
            self._settle()
            return self._contents.index.disk_bytes

    # --- writing ---

    def _write(
        self, records: Sequence[Record], changes: Sequence[StateChange], last_seq: int, oldest: int, *, frees: bool
    ) -> bytes:
        """A new batch, those before `oldest` deleted."""
        contents = self._contents
        number = contents.newest + 1
        blob = pack(Head(number, oldest, last_seq), records)
        if len(blob) > BATCH_BYTES_MAX:
            raise UsageError("E_STORE_BATCH", f"{len(blob)} bytes in one batch, at most {BATCH_BYTES_MAX} are allowed")
        delete_before = oldest if oldest > contents.index.first else 0
        self._file.write(number, blob, changes, delete_before=delete_before, frees=frees)
        contents.newest, contents.last_seq = number, last_seq
        return blob

    def _settle(self) -> None:
        """Take note of the batches written last."""
        if not self._contents.unsettled:
            return
        size = self._contents.settle()
        if self._surplus() > 1:  # no one calls `maintain`, or there is never a pause
            with suppress(StoreError), translated():  # the batches are safe; room is made another time
                self._move(max(self._limits.move_bytes, 4 * size))

    def _surplus(self) -> float:
        """Dead bytes of the file relative to the limit; at 1 housekeeping is due."""
        index, limits = self._contents.index, self._limits
        live = index.live_bytes + COUNTED_BYTES * len(self._contents.state.counted)
        waste = (index.disk_bytes - index.tail.bytes - live) / (2 * (limits.slack_bytes + live))
        batches = index.batches - len(index.tail)
        tiny = batches / (2 * (limits.slack_batches + index.disk_bytes // limits.small_bytes))
        return max(waste, tiny)

    def _move(self, size: int) -> None:
        """Rewrite the live messages of the oldest batches, so that these can be deleted."""
        index, counted = self._contents.index, self._contents.state.counted
        last = index.oldest(size)
        records: list[Record] = []
        for seq, number, start, length, mailboxes in index.live_until(last):
            message = self._file.message(number, start, length)
            if message is None:  # it must not get a new checksum
                self._unsound.add(seq)
                for mailbox in mailboxes:
                    index.leave(mailbox, (seq,))
                continue
            records.append(Stored(seq, message, mailboxes))
            if counted:
                mine = [mailbox for mailbox in mailboxes if (mailbox, seq) in counted]
                records += [Counted(mailbox, seq, counted[mailbox, seq]) for mailbox in mine]
        oldest = last + 1
        blob = self._write(records, (), self._contents.last_seq, oldest, frees=True)
        index.move(scan(blob, trusted=True), len(blob))
        index.forget(oldest)


class _Use:
    """One use of the store: alone, and with errors that are ours. Not a generator: those cost more."""

    __slots__ = ("_store",)

    def __init__(self, store: SqliteStore) -> None:
        self._store = store

    def __enter__(self) -> None:
        store = self._store
        store._mutex.acquire()
        if store._closed:
            store._mutex.release()
            raise StoreError("E_STORE_CLOSED", "the store is closed")

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        self._store._mutex.release()
        if error is not None:
            translate(error)
