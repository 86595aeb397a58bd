"""The SQLite store: the contract, space, full disks, locks, versions."""

import errno
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from hardening.contracts.store import check_store

from tidings.delivery.store import Acked, MailboxAdded, Note, Store, Stored
from tidings.errors import StoreError
from tidings.store.log.state import setting
from tidings.store.log.tail import TailLimits
from tidings.store.sqlite import file as sqlite_file
from tidings.store.sqlite import reserve as store_room
from tidings.store.sqlite import salvage
from tidings.store.sqlite.store import SqliteStore, StoreLimits

NO_TAIL = TailLimits(messages=0)
RESTLESS = StoreLimits(
    slack_bytes=500,
    slack_batches=2,
    small_bytes=500,
    move_bytes=2000,
    checkpoint_bytes=1000,
    tail=TailLimits(messages=10, bytes=2000, batches=3),
)  # moves all the time


def maker(folder: Path, limits: StoreLimits) -> Callable[[bool], Store]:
    count = 0

    def make(fresh: bool) -> Store:
        nonlocal count
        count += fresh
        return SqliteStore(folder / f"{count}.db", limits)

    return make


def test_sqlite_store_keeps_the_contract(tmp_path: Path) -> None:
    check_store(maker(tmp_path, StoreLimits()), examples=20)


def test_sqlite_store_keeps_the_contract_while_moving_all_the_time(tmp_path: Path) -> None:
    check_store(maker(tmp_path, RESTLESS), examples=20)


def test_nobody_else_reads_its_files(tmp_path: Path) -> None:
    path = tmp_path / "private" / "store.db"
    path.parent.mkdir()

    def modes() -> set[int]:
        return {one.stat().st_mode & 0o777 for one in path.parent.iterdir()}

    before = os.umask(0o022)
    try:
        store = SqliteStore(path)
        store.append([MailboxAdded(1, "queue:a", "queue")])
        assert modes() == {0o600}
        for one in path.parent.iterdir():  # as an earlier version made them
            one.chmod(0o644)
        store.close()
        store = SqliteStore(path)
        store.append([MailboxAdded(2, "queue:b", "queue")])
        assert {one.stat().st_mode & 0o777 for one in (path, path.with_name("store.db-wal"))} == {0o600}
        store.close()
    finally:
        os.umask(before)


# --- space -----------------------------------------------------------------------------------------------------------


def cycle(store: Store, turns: int, size: int = 200, each: int = 50) -> None:
    """Steady traffic through mailbox 1: each batch acknowledges the one before."""
    acked, seq = Acked(1, ()), store.recover().last_seq
    for _ in range(turns):
        seqs = tuple(range(seq + 1, seq + each + 1))
        store.append([acked, *[Stored(one, bytes(size), (1,)) for one in seqs]])
        seq, acked = seq + each, Acked(1, seqs)
    store.append([acked])


def sizes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


def test_steady_traffic_reuses_space(tmp_path: Path) -> None:
    """A hundred times what waits at any time goes through; the files do not grow after the first round."""
    store = SqliteStore(tmp_path / "store.db", StoreLimits(checkpoint_bytes_max=200_000, tail=NO_TAIL))
    store.append([MailboxAdded(1, "queue:a", "queue")])
    cycle(store, 40)
    before = sizes(tmp_path)
    for _ in range(5):
        cycle(store, 40)
        assert sizes(tmp_path) <= before + 20_000
    assert store.disk_bytes() < 20_000
    store.close()


def test_one_old_message_holds_up_a_bounded_amount(tmp_path: Path) -> None:
    limits = StoreLimits(slack_bytes=50_000, move_bytes=20_000, tail=NO_TAIL)
    store = SqliteStore(tmp_path / "store.db", limits)
    store.append([MailboxAdded(1, "queue:a", "queue"), MailboxAdded(2, "queue:b", "queue"), Stored(1, b"old", (2,))])
    for _ in range(6):
        cycle(store, 40)
        assert store.disk_bytes() < 4 * limits.slack_bytes
    assert store.read([1]) == [b"old"]
    store.close()
    store = SqliteStore(tmp_path / "store.db")
    assert list(store.recover().waiting[2].seqs) == [1]
    assert store.recover().damaged == ()
    store.close()


def test_many_small_batches_become_few(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store.db", StoreLimits(slack_batches=20, tail=NO_TAIL))
    store.append([MailboxAdded(1, "queue:a", "queue")])
    for seq in range(1, 151):
        store.append([Stored(seq, b"%d" % seq, (1,))])
    assert store.disk_bytes() < 150 * 60, "not a directory for each message"
    assert store.read([1, 75, 150]) == [b"1", b"75", b"150"]
    store.close()


# --- faults ----------------------------------------------------------------------------------------------------------


def test_a_full_disk_refuses_the_batch_and_only_that(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store.db")
    store.append([MailboxAdded(1, "queue:a", "queue"), Stored(1, bytes(50_000), (1,))])
    before = store.recover()
    db = store._file._db
    db.execute(f"PRAGMA max_page_count={db.execute('PRAGMA page_count').fetchone()[0]}").fetchall()
    for _ in range(3):
        with pytest.raises(StoreError, match="E_STORE_FULL") as caught:
            store.append([Stored(2, bytes(50_000), (1,)), Note("a", b"never"), Acked(1, (1,))])
        assert caught.value.retryable
        assert store.recover() == before
    store.append([Acked(1, (1,))])  # small things still fit
    db.execute("PRAGMA max_page_count=1000000").fetchall()
    store.append([Stored(2, b"fits again", (1,))])
    store.close()
    store = SqliteStore(tmp_path / "store.db")
    assert store.recover().notes == {}
    assert (list(store.recover().waiting[1].seqs), store.read([2])) == ([2], [b"fits again"])
    store.close()


class FullDisk:
    """SQLite's connection and `fallocate` on a disk that has no room but what the reserve keeps."""

    def __init__(self, db: sqlite3.Connection, reserve: Path) -> None:
        self._db, self._reserve, self.full = db, reserve, True
        self.in_transaction = False

    def execute(self, statement: str, *arguments: object) -> sqlite3.Cursor:
        if self.full and statement.startswith(("BEGIN", "INSERT")) and self._reserve.exists():
            error = sqlite3.OperationalError("database or disk is full")
            error.sqlite_errorcode = sqlite3.SQLITE_FULL
            raise error
        return self._db.execute(statement, *arguments)  # type: ignore[arg-type]

    def allocate(self, file: int, start: int, size: int) -> None:
        if self.full:
            raise OSError(errno.ENOSPC, "no space left")
        os.truncate(file, start + size)

    def close(self) -> None:
        self._db.close()


def test_what_makes_room_is_written_on_a_full_disk_and_messages_wait_for_the_reserve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, reserve = SqliteStore(tmp_path / "store.db"), tmp_path / "store.db.reserve"
    assert reserve.stat().st_size > 0
    store.append([MailboxAdded(1, "queue:a", "queue"), Stored(1, b"first", (1,)), Stored(2, b"second", (1,))])
    disk = FullDisk(store._file._db, reserve)
    monkeypatch.setattr(store._file, "_db", disk)
    monkeypatch.setattr(os, "posix_fallocate", disk.allocate)
    with pytest.raises(StoreError, match="E_STORE_FULL"):
        store.append([Stored(3, b"third", (1,))])
    assert reserve.exists(), "it is not for messages"
    assert not store.has_room()
    store.append([Acked(1, (1,))])
    assert not reserve.exists()
    assert not store.has_room()
    with pytest.raises(StoreError, match="E_STORE_FULL"):
        store.append([Stored(3, b"third", (1,))])
    disk.full = False
    monkeypatch.setattr(store._file._room, "due", lambda: True)
    assert store.has_room()
    store.append([Stored(3, b"third", (1,))])
    assert reserve.exists()
    assert not list(tmp_path.glob("*.probe"))
    store.close()
    store = SqliteStore(tmp_path / "store.db")
    assert list(store.recover().waiting[1].seqs) == [2, 3]
    store.close()


class LoggedDisk(FullDisk):
    """A disk that is full because of what the write-ahead log takes; to empty it, the reserve is needed."""

    def __init__(self, db: sqlite3.Connection, path: Path) -> None:
        super().__init__(db, path.with_name(path.name + ".reserve"))
        self._log = path.with_name(path.name + "-wal")
        self.emptied: list[str] = []

    def execute(self, statement: str, *arguments: object) -> sqlite3.Cursor:
        self.full = self._log.stat().st_size > 0
        if not statement.startswith("PRAGMA wal_checkpoint"):
            return super().execute(statement, *arguments)
        if self.full and self._reserve.exists():
            super().execute("BEGIN")  # which says that the disk is full
        self.emptied.append(statement)
        try:
            return self._db.execute(statement)
        finally:
            self.full = self._log.stat().st_size > 0


def full_of_log(
    path: Path, monkeypatch: pytest.MonkeyPatch, limits: StoreLimits | None = None
) -> tuple[SqliteStore, LoggedDisk]:
    store = SqliteStore(path, limits)
    store.append([MailboxAdded(1, "queue:a", "queue"), Stored(1, b"first", (1,))])
    disk = LoggedDisk(store._file._db, path)
    monkeypatch.setattr(store._file, "_db", disk)
    monkeypatch.setattr(os, "posix_fallocate", disk.allocate)
    return store, disk


def test_messages_are_taken_if_the_place_of_the_log_is_all_that_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, disk = full_of_log(tmp_path / "store.db", monkeypatch)
    with pytest.raises(StoreError, match="E_STORE_FULL"):
        store.append([Stored(2, b"second", (1,))])
    assert disk.emptied == []  # not with each batch
    monkeypatch.setattr(store._file._room, "due", lambda: True)
    store.append([Stored(2, b"second", (1,))])
    assert (tmp_path / "store.db.reserve").exists()
    store.close()
    store = SqliteStore(tmp_path / "store.db")
    assert store.read([1, 2]) == [b"first", b"second"]
    store.close()


def test_a_batch_for_which_there_is_no_place_without_the_log_either_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SqliteStore(tmp_path / "store.db")
    store.append([MailboxAdded(1, "queue:a", "queue"), Stored(1, b"first", (1,))])
    disk = FullDisk(store._file._db, tmp_path / "store.db.reserve")
    monkeypatch.setattr(store._file, "_db", disk)
    monkeypatch.setattr(os, "posix_fallocate", disk.allocate)
    monkeypatch.setattr(store._file._room, "due", lambda: True)
    for _ in range(2):
        with pytest.raises(StoreError, match="E_STORE_FULL"):
            store.append([Stored(2, b"second", (1,))])
    store.append([Acked(1, (1,))])
    store.close()
    monkeypatch.undo()
    store = SqliteStore(tmp_path / "store.db")
    assert list(store.recover().waiting[1].seqs) == []
    store.close()


@pytest.mark.parametrize("mode", ["PASSIVE", "TRUNCATE"])
def test_the_log_is_emptied_with_the_reserve_if_need_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    store, disk = full_of_log(tmp_path / "store.db", monkeypatch, StoreLimits(checkpoint_bytes=0))
    if mode == "PASSIVE":
        store.maintain()
    else:
        store.close()
    assert disk.emptied == [f"PRAGMA wal_checkpoint({mode})"]
    store.close()


def test_a_store_that_is_opened_has_room_for_the_log_it_finds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_file, "CLAIM_BYTES", 1 << 30)
    store = SqliteStore(tmp_path / "store.db")
    store.append([MailboxAdded(1, "queue:a", "queue"), Stored(1, bytes(200_000), (1,))])
    crashed = tmp_path / "crashed"
    crashed.mkdir()
    for name in ("store.db", "store.db-wal", "store.db.lock"):
        shutil.copy(tmp_path / name, crashed)
    store.close()
    assert (crashed / "store.db").stat().st_size < 200_000
    store = SqliteStore(crashed / "store.db")
    assert (crashed / "store.db").stat().st_size >= 200_000
    assert store.read([1]) == [bytes(200_000)]
    store.close()


def test_the_file_has_room_for_what_the_log_holds(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store.db")
    store.append([MailboxAdded(1, "queue:a", "queue")])
    for seq in range(1, 11):
        store.append([Stored(seq, bytes(400_000), (1,))])
    assert (tmp_path / "store.db").stat().st_size >= 10 * 400_000
    store.close()


def test_nothing_is_confirmed_once_it_was_noticed_that_the_files_were_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_room, "CHECK_SECONDS", 0.0)
    store = SqliteStore(tmp_path / "store.db")
    store.append([Note("a", b"there")])
    moved = (tmp_path / "store.db").rename(tmp_path / "elsewhere")
    for _ in range(2):
        with pytest.raises(StoreError, match=r"E_STORE_IO.*store\.db was removed"):
            store.append([Note("a", b"lost")])
    moved.rename(tmp_path / "store.db")
    store.append([Note("a", b"there again")])
    store.close()


@pytest.mark.parametrize("what", ["directory", "link"])
def test_a_file_that_cannot_be_opened_is_named(tmp_path: Path, what: str) -> None:
    path = tmp_path / "store.db"
    if what == "directory":
        path.mkdir()
    else:
        path.symlink_to("nowhere/store.db")
    with pytest.raises(StoreError, match=rf"E_STORE_IO.*store\.db cannot be opened: it is a {what}"):
        SqliteStore(path)


@pytest.mark.parametrize("name", ["store.db", "store.db-wal"])
def test_a_file_that_may_not_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    path = tmp_path / "store.db"
    SqliteStore(path).close()
    (tmp_path / name).touch()

    def refused(_: Path) -> sqlite3.Connection:
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorcode = sqlite3.SQLITE_IOERR
        raise error

    monkeypatch.setattr(salvage, "connect", refused)  # as SQLite says it; and root may write all
    with pytest.raises(StoreError, match="E_STORE_IO: disk I/O error"):
        SqliteStore(path)
    monkeypatch.setattr(os, "access", lambda file, _: file != tmp_path / name)
    reason = rf"E_STORE_IO.*store\.db cannot be opened: the broker may not read and write {name}, "
    with pytest.raises(StoreError, match=reason):
        SqliteStore(path)


IO_ERROR = """
import resource, sys
from tidings.store.sqlite.store import SqliteStore
from tidings.delivery.store import *
from tidings.errors import StoreError
store = SqliteStore(sys.argv[1])
store.append([MailboxAdded(1, "queue:a", "queue"), Stored(1, b"first", (1,))])
unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, unlimited[1]))  # the system refuses to write beyond
codes = []
for seq in (2, 3):
    try:
        store.append([Stored(seq, bytes(300_000), (1,))])
    except StoreError as error:
        codes.append((error.code, error.retryable, list(store.recover().waiting[1].seqs)))
resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
store.append([Stored(4, bytes(300_000), (1,))])
sys.stdout.write(repr((codes, list(store.recover().waiting[1].seqs), len(store.read([1, 4])[1]))))
sys.stdout.flush()
import os; os._exit(0)  # without close: as after a crash
"""


def test_an_error_of_the_disk_refuses_the_batch_and_only_that(tmp_path: Path) -> None:
    """Writes really fail: the process may not write files beyond some size, then it may again."""
    arguments = [sys.executable, "-c", IO_ERROR, str(tmp_path / "store.db")]
    out = subprocess.run(arguments, capture_output=True, check=True, text=True).stdout
    assert out == repr(([("E_STORE_IO", True, [1])] * 2, [1, 4], 300_000))
    store = SqliteStore(tmp_path / "store.db")
    assert list(store.recover().waiting[1].seqs) == [1, 4]
    assert store.recover().damaged == ()
    store.close()


def test_a_message_that_goes_bad_while_the_store_is_open_is_never_passed_on(tmp_path: Path) -> None:
    """Neither to a reader nor, with a new checksum, to a younger batch."""
    store = SqliteStore(tmp_path / "store.db", StoreLimits(slack_bytes=1000, move_bytes=1000))
    messages = [Stored(seq, b"message %03d " % seq * 30, (1,)) for seq in range(1, 21)]
    store.append([MailboxAdded(1, "queue:a", "queue"), *messages])
    ((blob,),) = store._file._db.execute("SELECT payload FROM batch").fetchall()
    bad = blob.replace(b"message 007 message", b"message 008 message", 1)
    store._file._db.execute("UPDATE batch SET payload = ?", (bad,))
    with pytest.raises(StoreError, match="E_STORE_DAMAGED at 1"):
        store.read([6, 7])
    store.append([Acked(1, (1, *range(9, 21)))])
    while store.maintain():
        pass
    assert store.read([6, 8]) == [messages[5].message_bytes, messages[7].message_bytes]
    with pytest.raises(StoreError, match="E_STORE_DAMAGED at 0"):
        store.read([7])
    store.close()


# --- opening ---------------------------------------------------------------------------------------------------------


def test_one_process_at_a_time(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store.db")
    with pytest.raises(StoreError, match="E_STORE_LOCKED"):
        SqliteStore(tmp_path / "store.db")
    store.append([Note("a", b"still mine")])
    store.close()
    SqliteStore(tmp_path / "store.db").close()


@pytest.mark.parametrize("content", [b"not a database" * 1000, b"\0" * 5000, b"x"])
def test_a_file_that_is_something_else_is_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "store.db"
    path.write_bytes(content)
    for _ in range(2):  # and it is not locked afterwards
        with pytest.raises(StoreError, match="E_STORE_VERSION"):
            SqliteStore(path)
    assert path.read_bytes() == content


def test_another_programs_database_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE batch (mine)")
        db.commit()
    content = path.read_bytes()
    with pytest.raises(StoreError, match="E_STORE_VERSION"):
        SqliteStore(path)
    assert path.read_bytes() == content


def test_another_version_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    store = SqliteStore(path)
    salvage.write(store._file._db, setting("version", Note("version", b"2")))
    store.close()
    with pytest.raises(StoreError, match=r"E_STORE_VERSION.*version 2, this program supports 1"):
        SqliteStore(path)


def test_no_such_folder(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="E_STORE_IO"):
        SqliteStore(tmp_path / "none" / "store.db")
    store = SqliteStore(tmp_path / "store.db")
    store.close()
    with pytest.raises(StoreError, match="E_STORE_CLOSED"):
        store.append([])
