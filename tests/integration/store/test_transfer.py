"""Stores are copied, checked, backed up and restored, with all they hold."""

import threading
from pathlib import Path
from random import Random

import psycopg
import pytest
from hardening.contracts.store import check_same
from hardening.support.postgresql import Cluster
from typer.testing import CliRunner

from tidings.cli import make_app
from tidings.delivery.store import Acked, Attached, Counted, MailboxAdded, MemoryStore, Note, Record, Store, Stored
from tidings.errors import StoreError, UsageError
from tidings.store.log.store import LogStore
from tidings.store.postgresql.options import DatabaseOptions
from tidings.store.postgresql.place import PostgresPlace
from tidings.store.sqlite.place import STORE, SqlitePlace
from tidings.store.sqlite.store import SqliteStore
from tidings.store.transfer import check_store, copy_store, held, opened, summary_of


def filled(*stores: Store, batches: int = 60) -> None:
    rng, seq = Random(1), 0
    boxes: list[Record] = [MailboxAdded(box, f"queue:{box}", "queue", b"p", b"o") for box in (1, 2)]
    for store in stores:
        store.append([*boxes, Attached(2), Note("id", b"7")])
    for _ in range(batches):
        batch: list[Record] = []
        for _ in range(rng.randint(1, 9)):
            seq += rng.randint(1, 3)
            batch.append(Stored(seq, rng.randbytes(rng.randint(0, 2000)), (1, 2)))
        batch += [Acked(1, tuple(range(max(1, seq - 20), seq))), Counted(2, seq, 3)]
        for store in stores:
            store.append(batch)


def test_a_store_goes_into_a_database_and_back_unchanged(tmp_path: Path, server: Cluster) -> None:
    file, back = (SqlitePlace(tmp_path / name) for name in ("a.db", "b.db"))
    database = PostgresPlace(DatabaseOptions(server.database(), 7))
    model = MemoryStore()
    with held(file) as lease, opened(file, lease) as store:
        filled(store, model)
        rows = summary_of(store.rows)
    found = copy_store(file, database)
    assert (found.mailboxes, found.messages, found.damaged) == (2, len(model.recover().waiting[2]), ())
    assert copy_store(database, back) == found
    for place in (database, back):
        with held(place) as lease, opened(place, lease) as store:
            assert isinstance(store, LogStore)
            check_same(store, model)
            assert summary_of(store.rows) == rows
            store.append([Stored(model.recover().last_seq + 1, b"it goes on", (1,))])
    for source, target in ((file, back), (back, database)):
        with pytest.raises(UsageError, match="holds messages already"):
            copy_store(source, target)
    with held(file), pytest.raises(StoreError, match="stop the broker"):
        copy_store(file, SqlitePlace(tmp_path / "c.db"))


def test_a_damaged_store_is_reported_left_as_it_is_and_not_copied(tmp_path: Path, server: Cluster) -> None:
    place = SqlitePlace(tmp_path / STORE)
    with held(place) as lease, opened(place, lease) as store:
        store.append([MailboxAdded(1, "queue:a", "queue"), Stored(1, b"unmistakable", (1,)), Stored(2, b"good", (1,))])
    damaged = place.path.read_bytes().replace(b"unmistakable", b"unmistakeble")
    place.path.write_bytes(damaged)
    found = check_store(place)
    assert (found.messages, [one.reason for one in found.damaged]) == (1, ["checksum differs"])
    assert place.path.read_bytes() == damaged
    database = PostgresPlace(DatabaseOptions(server.database(), 7))
    with pytest.raises(StoreError, match="is damaged: checksum differs"):
        copy_store(place, database)
    assert CliRunner().invoke(make_app(["store"]), ["store", "check", str(tmp_path)]).exit_code == 1
    with pytest.raises(UsageError, match="is not there"):
        check_store(SqlitePlace(tmp_path / "none.db"))


def test_a_message_that_went_bad_in_a_database_is_found(server: Cluster) -> None:
    options = DatabaseOptions(server.database(), 7)
    place = PostgresPlace(options)
    with held(place) as lease, opened(place, lease) as store:
        store.append([MailboxAdded(1, "queue:a", "queue"), Stored(1, b"unmistakable", (1,))])
    with psycopg.connect(options.url) as db:
        db.execute("UPDATE tidings.batch SET payload = set_byte(payload, position('unmist'::bytea IN payload), 0)")
    assert [one.reason for one in check_store(place).damaged] == ["checksum differs"]


def test_the_command_copies_and_checks(tmp_path: Path, server: Cluster) -> None:
    with held(place := SqlitePlace(tmp_path / STORE)) as lease, opened(place, lease) as store:
        filled(store, batches=3)
    app, url = make_app(["store"]), server.database()
    done = CliRunner().invoke(app, ["store", "copy", str(tmp_path), url, "--broker", "3"])
    assert (done.exit_code, done.output.split(":")[0]) == (0, "copied and compared"), done.output
    checked = [
        CliRunner().invoke(app, ["store", "check", *where]) for where in ([str(tmp_path)], [url, "--broker", "3"])
    ]
    assert [one.exit_code for one in checked] == [0, 0]
    assert checked[0].output == checked[1].output
    assert isinstance(CliRunner().invoke(app, ["store", "check", url]).exception, UsageError)


def test_a_backup_is_made_while_the_store_is_written_and_can_be_restored(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / STORE)
    filled(store, batches=400)
    before, last, stop = store.recover().last_seq, 0, threading.Event()

    def write() -> None:
        nonlocal last
        last = before
        while not stop.is_set():
            store.append([Stored(last + 1, bytes(500), (1,))])
            last += 1

    writing = threading.Thread(target=write)
    writing.start()
    store.backup(tmp_path / "monday.db")
    stop.set()
    writing.join()
    assert last > before, "it was written meanwhile"
    with pytest.raises(UsageError, match="there already"):
        store.backup(tmp_path / "monday.db")
    state = store.recover()
    store.close()
    folder = tmp_path / "restored"
    folder.mkdir()
    (tmp_path / "monday.db").rename(folder / STORE)
    found = check_store(SqlitePlace(folder / STORE))
    assert found.damaged == ()
    restored = SqliteStore(folder / STORE)
    kept = restored.recover()
    assert before <= kept.last_seq <= last
    assert list(kept.waiting[2].seqs) == list(state.waiting[2].seqs)
    assert list(kept.waiting[1].seqs) == [seq for seq in state.waiting[1].seqs if seq <= kept.last_seq]
    assert (folder / STORE).stat().st_mode & 0o777 == 0o600
    restored.close()
