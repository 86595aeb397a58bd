"""Opening the store's file, and what to do when it is not what it should be.

`connect` opens or makes it. `missing` tells what is not there at all, and `is_cut` whether SQLite would take what is
left for a new file. `mend` repairs the write-ahead log before SQLite sees it. `rebuild` makes a new file out of
a damaged one: it copies the file with the log applied, puts a fresh first page on the copy (the first page of a store
never changes but for a few numbers), reads whatever rows SQLite can still reach, from both ends and then one by one,
and whatever batches it cannot (`page_scan`), and writes them to a new file. Rows are only carried, their checksums
are for the reader to check.
"""

import os
import shutil
import sqlite3
import struct
import tempfile
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

from tidings.delivery.batch_codec import MAGIC, layout, unpack
from tidings.delivery.store import Damage, Note, Record
from tidings.errors import CodecError, StoreError
from tidings.segments.durable import sync_directory
from tidings.store.log.state import TABLES, VERSION_KEY, StateChange, setting
from tidings.store.sqlite import wal
from tidings.store.sqlite.page_scan import stray_batches

PAGE_BYTES = 4096
APPLICATION = 0x54444E47  # "TDNG"
VERSION = Note(VERSION_KEY, b"1")
# The file begins so (section 1.3 of SQLite's description of its format): page size, write-ahead log, fixed numbers.
HEADER = b"SQLite format 3\0" + struct.pack(">H", PAGE_BYTES) + bytes([2, 2, 0, 64, 32, 32])
SCHEMA = {
    "batch": "CREATE TABLE batch (number INTEGER PRIMARY KEY, payload BLOB NOT NULL)",
    **{table: f"CREATE TABLE {table} (key TEXT PRIMARY KEY, record BLOB NOT NULL) WITHOUT ROWID" for table in TABLES},
}

_INSERT = "INSERT OR IGNORE INTO batch VALUES (?, ?)"


def connect(path: Path) -> sqlite3.Connection:
    """An open store, made if there was none. sqlite3.DatabaseError if it is damaged."""
    _keep_private(path)
    db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=0)
    try:
        db.execute(f"PRAGMA page_size={PAGE_BYTES}")
        db.execute("PRAGMA locking_mode=EXCLUSIVE")  # no shared memory, no lock calls for each commit
        fresh = _check_schema(db, path)
        if not fresh:
            _check_header(db, path)
        (mode,) = db.execute("PRAGMA journal_mode=WAL").fetchone()
        if mode != "wal":
            raise StoreError(
                "E_STORE_IO", f"{path}: this file system does not support the write-ahead log; use a local file system"
            )
        for pragma in ("synchronous=FULL", "fullfsync=ON", "checkpoint_fullfsync=ON", "secure_delete=OFF"):
            db.execute(f"PRAGMA {pragma}").fetchall()
        if fresh:
            _create(db, path)
    except BaseException:
        db.close()
        raise
    return db


def write(db: sqlite3.Connection, change: StateChange) -> None:
    """Set or delete a row of the state, in both copies."""
    for table in TABLES:
        if change.blob is None:
            db.execute(f"DELETE FROM {table} WHERE key = ?", (change.key,))
        else:
            db.execute(f"INSERT OR REPLACE INTO {table} VALUES (?, ?)", (change.key, change.blob))


def _check_schema(db: sqlite3.Connection, path: Path) -> bool:
    """True if the file is empty; an error if it is not a store of this version."""
    tables = dict(db.execute("SELECT name, sql FROM sqlite_schema"))
    (application,) = db.execute("PRAGMA application_id").fetchone()
    if not tables and not application:
        if 0 < path.stat().st_size < PAGE_BYTES:  # too short for SQLite to notice that it is something else
            raise StoreError("E_STORE_VERSION", f"{path} is not a Tidings store")
        return True
    if tables != SCHEMA:
        if application == APPLICATION or SCHEMA.keys() <= tables.keys():
            raise sqlite3.DatabaseError("the schema is damaged")
        raise StoreError("E_STORE_VERSION", f"{path} is a SQLite file but not a Tidings store")
    for table in TABLES:
        for (blob,) in db.execute(f"SELECT record FROM {table} WHERE key = ?", (VERSION_KEY,)):
            with suppress(CodecError):
                found = unpack(blob).records
                if found and found != [VERSION]:
                    reason = f"{path} has version {_version(found[0])}, this program supports {VERSION.value.decode()}"
                    raise StoreError("E_STORE_VERSION", reason)
    return False


def _version(record: Record) -> str:
    return record.value.decode(errors="replace") if isinstance(record, Note) else "unknown"


def _check_header(db: sqlite3.Connection, path: Path) -> None:
    """Check header fields that SQLite trusts: a flipped bit may make a file read-only or change its text encoding."""
    with path.open("rb") as file:
        header = file.read(len(HEADER))
    (application,) = db.execute("PRAGMA application_id").fetchone()
    (encoding,) = db.execute("PRAGMA encoding").fetchone()
    if header != HEADER or application != APPLICATION or encoding != "UTF-8":
        raise sqlite3.DatabaseError("the header is damaged")


def is_store(path: Path) -> bool:
    """True if a file that SQLite cannot read was a store: any of its marks is enough."""
    marks = [MAGIC, struct.pack(">I", APPLICATION), *(statement.encode() for statement in SCHEMA.values())]
    for part in (path, beside(path, "-wal")):
        if part.exists():
            with part.open("rb") as file:
                top = file.read(16 * PAGE_BYTES)
            if any(mark in top for mark in marks):
                return True
    return False


def _create(db: sqlite3.Connection, path: Path) -> None:
    db.execute("BEGIN IMMEDIATE")
    db.execute(f"PRAGMA application_id={APPLICATION}")
    for statement in SCHEMA.values():
        db.execute(statement)
    write(db, setting(VERSION_KEY, VERSION))
    db.execute("COMMIT")
    sync_directory(path.parent)


def _keep_private(path: Path) -> None:
    """Nobody else reads messages: the file is made, or becomes, its owner's alone; SQLite makes the log as the file."""
    with suppress(OSError):  # SQLite says what is wrong
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        for part in (path, beside(path, "-wal")):
            if part.exists() and part.stat().st_mode & 0o077:
                part.chmod(0o600)


def beside(path: Path, ending: str) -> Path:
    return path.with_name(path.name + ending)


def missing(path: Path, *, made: bool, logged: bool) -> list[Damage]:
    """Damages for missing files of a store. `made`: there was one; `logged`: its log held something."""
    damaged = []
    log = wal.read(beside(path, "-wal"), PAGE_BYTES)
    if (made or log is not None) and not _size(path):
        state = "is empty" if path.exists() else "is gone"
        damaged.append(Damage(f"{path.name} {state}: only what its write-ahead log has is left"))
    if logged and log is None:
        damaged.append(Damage(f"{path.name}-wal is gone or empty: what was written last is lost"))
    return damaged


def is_cut(path: Path, *, made: bool) -> bool:
    """True if SQLite would discard the log, or not recognize the store, because of the file's size."""
    size = _size(path)
    if size:
        return size < PAGE_BYTES and (made or is_store(path))
    return wal.read(beside(path, "-wal"), PAGE_BYTES) is not None


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def mend(path: Path) -> list[Damage]:
    """Make SQLite see the whole of a write-ahead log that is damaged in the middle."""
    source = beside(path, "-wal")
    log = wal.read(source, PAGE_BYTES)
    frames = None if log is None else log.proven()
    if log is None or frames is None:
        return []
    if not frames:
        return [Damage("the last transaction of the write-ahead log is damaged or was never complete: ignored")]
    target = beside(path, ".mended")
    wal.rewrite(log, source, target, frames, PAGE_BYTES)
    _sync(target)
    _keep(source)
    target.replace(source)
    sync_directory(path.parent)
    return [Damage("the write-ahead log was damaged; it was read on behind the damage")]


def rebuild(path: Path) -> list[Damage]:
    """A new file from what can be read of a damaged one, which stays as `.damaged`."""
    copy, new = beside(path, ".copy"), beside(path, ".new")
    for old in (copy, beside(copy, "-wal"), new, beside(new, "-wal")):
        old.unlink(missing_ok=True)
    copy.touch(mode=0o600)
    if path.exists():
        shutil.copyfile(path, copy)
    with copy.open("r+b") as file:
        for number, content in wal.pages(beside(path, "-wal"), PAGE_BYTES):
            file.seek((number - 1) * PAGE_BYTES)
            file.write(content)
        file.flush()  # its size is asked for now, and the first page is written past the buffer
        _new_first_page(file.fileno())
    with closing(sqlite3.connect(copy, isolation_level=None)) as source, closing(connect(new)) as target:
        target.execute("BEGIN IMMEDIATE")
        for table in TABLES:
            rows = [*_rows(source, table, "key", "ASC"), *_rows(source, table, "key", "DESC")]
            target.executemany(f"INSERT OR IGNORE INTO {table} VALUES (?, ?)", rows)
        known: set[int] = set()
        for row in _batches(source):
            target.execute(_INSERT, row)
            known.add(int(str(row[0])))
        target.executemany(_INSERT, stray_batches(copy, PAGE_BYTES, known, _oldest(target)))
        target.execute("COMMIT")
    # A crash between any two of these steps leaves something that the next start can rebuild from.
    _sync(new)
    _sync(copy)
    _keep(path)
    _keep(beside(path, "-wal"))
    copy.replace(path)  # the file with its log applied
    sync_directory(path.parent)
    beside(path, "-wal").unlink(missing_ok=True)
    new.replace(path)
    sync_directory(path.parent)
    return [Damage("the file was damaged and created again; the damaged one is kept with the ending .damaged")]


def _new_first_page(file: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        fresh = Path(folder, "fresh")
        connect(fresh).close()
        page = bytearray(fresh.read_bytes()[:PAGE_BYTES])
    # Header (section 1.3 of the file format): size of the file in pages at 28, no free pages known at 32 and 36.
    struct.pack_into(">3I", page, 28, max(1, os.fstat(file).st_size // PAGE_BYTES), 0, 0)
    os.pwrite(file, page, 0)


def _rows(db: sqlite3.Connection, table: str, key: str, order: str) -> Iterator[tuple[object, bytes]]:
    """Rows until the damage. Each is read separately: a cursor is one ahead, and would lose the one before it."""
    beyond, seen, known = ">" if order == "ASC" else "<", set[object](), ""
    last: tuple[object, ...] = ()
    with suppress(sqlite3.DatabaseError):
        while row := db.execute(f"SELECT * FROM {table} {known} ORDER BY {key} {order} LIMIT 1", last).fetchone():
            if row[0] is None or row[0] in seen:  # keys out of order: this would go on for ever
                return
            if isinstance(row[1], bytes):
                yield row
            seen.add(row[0])
            known, last = f"WHERE {key} {beyond} ?", row[:1]


def _batches(db: sqlite3.Connection) -> Iterator[tuple[object, bytes]]:
    """From the old end, from the young end, and between them number by number."""
    last, first = 0, 0
    for row in _rows(db, "batch", "number", "ASC"):
        last = int(str(row[0]))
        yield row
    for row in _rows(db, "batch", "number", "DESC"):
        first = int(str(row[0]))
        if first <= last:
            return
        yield row
    for number in range(last + 1, first):
        with suppress(sqlite3.DatabaseError):
            yield from db.execute("SELECT * FROM batch WHERE number = ?", (number,)).fetchall()


def _oldest(db: sqlite3.Connection) -> int:
    """The first batch that is needed, as the newest one says that is sound; what it does not know was not deleted."""
    for (blob,) in db.execute("SELECT payload FROM batch ORDER BY number DESC"):
        with suppress(CodecError):
            return layout(blob).head.oldest
    return 0


def _keep(path: Path) -> None:
    """A copy for whoever wants to look into it."""
    if path.exists():
        shutil.copyfile(path, beside(path, ".damaged"))


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())
