"""Flipped bits, cut files, wiped pages: the store opens, says what it lost, and never shows a wrong byte."""

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hardening.contracts.store import check_same

from tidings.delivery.store import Acked, MailboxAdded, MemoryStore, Note, Record, Recovered, Stored
from tidings.store.sqlite import salvage
from tidings.store.sqlite.salvage import PAGE_BYTES
from tidings.store.sqlite.store import SqliteStore

BATCHES = 40


def batch(number: int) -> list[Record]:
    rng = random.Random(number)
    if not number:
        return [MailboxAdded(1, "queue:a", "queue"), MailboxAdded(2, "queue:b", "queue"), Note("a", b"note")]
    seqs = range(number * 100, number * 100 + rng.choice((1, 4, 30)))
    records: list[Record] = [Stored(seq, rng.randbytes(rng.choice((20, 300, 5000))), (1, 2)[: seq % 3]) for seq in seqs]
    return [*records, Acked(1, tuple(range(number * 100 - 250, number * 100 - 190)) if number > 3 else ())]


def model_after(count: int) -> MemoryStore:
    model = MemoryStore()
    for number in range(count):
        model.append(batch(number))
    return model


@pytest.fixture(name="files", scope="module")
def _files(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A store with all batches, either still in the log ("log") or all in the file ("file")."""
    folder = tmp_path_factory.mktemp("sound")
    for name in ("log", "file"):
        store = SqliteStore(folder / "store.db")
        (folder / name).mkdir()
        for number in range(BATCHES if name == "log" else 0):
            store.append(batch(number))
        if name == "file":
            store.close()
        for ending in ("", "-wal", ".lock"):
            if (folder / f"store.db{ending}").exists():
                shutil.copy(folder / f"store.db{ending}", folder / name)
        store.close()

    def copy(name: str) -> Path:
        target = tmp_path_factory.mktemp("copy")
        return Path(shutil.copytree(folder / name, target, dirs_exist_ok=True)) / "store.db"

    return copy


def judge(path: Path) -> tuple[Recovered, set[int]]:
    """Open what was damaged; the state and the seqs that are lost. What is there must be right, and writing goes on."""
    store, model = SqliteStore(path), model_after(BATCHES)
    state = store.recover()
    there = {seq for waiting in state.waiting.values() for seq in waiting.seqs}
    expected = {seq for waiting in model.recover().waiting.values() for seq in waiting.seqs}
    both = sorted(there & expected)
    assert store.read(both) == model.read(both)
    if there != expected:
        assert state.damaged, "what is lost is reported"
    store.append([Stored(10**6, b"new", (1,))])
    assert store.read([10**6]) == [b"new"]
    store.close()
    return state, expected - there


def test_the_sound_files_are_sound(files: Callable[[str], Path]) -> None:
    for name in ("log", "file"):
        state, lost = judge(files(name))
        assert (state.damaged, lost) == ((), set())


@pytest.mark.parametrize("seed", range(25))
@pytest.mark.parametrize(("name", "ending"), [("file", ""), ("log", "-wal")])
def test_a_flipped_bit(files: Callable[[str], Path], seed: int, name: str, ending: str) -> None:
    path, rng = files(name), random.Random(seed)
    part = path.with_name(path.name + ending)
    data = bytearray(part.read_bytes())
    # Some anywhere, which is mostly in a record; some where SQLite keeps its own structure.
    at = (
        rng.randrange(len(data)) if seed % 5 else rng.randrange(8) + PAGE_BYTES * rng.randrange(len(data) // PAGE_BYTES)
    )
    data[at] ^= 1 << rng.randrange(8)
    part.write_bytes(data)
    state, lost = judge(path)
    reasons = {damage.reason for damage in state.damaged}
    if reasons == {"checksum differs"}:
        assert len(lost) <= 1
    assert [box.name for box in state.mailboxes] == ["queue:a", "queue:b"]
    assert state.notes == {"a": b"note"}


def test_a_log_cut_off_anywhere_holds_the_batches_before_the_cut(files: Callable[[str], Path]) -> None:
    path = files("log")
    log = path.with_name(path.name + "-wal")
    whole, sound = log.read_bytes(), path.read_bytes()
    counts = []
    for size in sorted(random.Random(1).sample(range(20_000, len(whole)), 20)):
        path.write_bytes(sound)
        log.write_bytes(whole[:size])
        store = SqliteStore(path)
        last = store.recover().last_seq
        counts.append(next(count for count in range(BATCHES + 1) if model_after(count).recover().last_seq == last))
        check_same(store, model_after(counts[-1]) if counts[-1] else model_after(1))
        store.close()
    assert counts == sorted(counts)
    assert counts[0] < counts[-1]


@pytest.mark.parametrize("pages", [1, 2, 5, 20])
def test_a_file_cut_off(files: Callable[[str], Path], pages: int) -> None:
    path = files("file")
    size = path.stat().st_size - pages * PAGE_BYTES + 7
    with path.open("r+b") as file:
        file.truncate(size)
    state, lost = judge(path)
    assert len(lost) < len(state.waiting[1]) + len(state.waiting[2])


@pytest.mark.parametrize("page", range(6))
def test_a_wiped_page(files: Callable[[str], Path], page: int) -> None:
    """The first page, the roots of the tables and a few others."""
    path = files("file")
    with path.open("r+b") as file:
        file.seek(page * PAGE_BYTES)
        file.write(bytes(PAGE_BYTES))
    state, lost = judge(path)
    assert state.damaged
    assert lost == set() or page != 1, "the leaves of the batches are found without their root"
    assert [box.name for box in state.mailboxes] == ["queue:a", "queue:b"]
    assert path.with_name("store.db.damaged").exists() == any("created again" in one.reason for one in state.damaged)


@pytest.mark.parametrize("locked", [True, False])
@pytest.mark.parametrize("size", [None, 0, 1, 100, PAGE_BYTES - 1])
def test_a_log_without_its_file_is_read(files: Callable[[str], Path], size: int | None, locked: bool) -> None:
    path = files("log")
    if not locked:
        path.with_name("store.db.lock").unlink()  # of a store that an earlier version made
    cut(path, size)
    state, lost = judge(path)
    assert lost == set()
    assert state.damaged
    assert [box.name for box in state.mailboxes] == ["queue:a", "queue:b"]
    assert path.with_name("store.db-wal.damaged").exists()
    assert SqliteStore(path).recover().damaged == (), "it is said once"


@pytest.mark.parametrize("size", [None, 0, 1, 100, PAGE_BYTES - 1, PAGE_BYTES])
def test_a_file_that_is_gone_is_missed(files: Callable[[str], Path], size: int | None) -> None:
    path = files("file")
    cut(path, size)
    store = SqliteStore(path)
    assert store.recover().damaged
    store.append(batch(0))
    store.close()
    store = SqliteStore(path)
    assert store.recover().damaged == ()
    store.close()


@pytest.mark.parametrize("size", [None, 0, 1, PAGE_BYTES])
def test_a_log_that_is_gone_is_missed(files: Callable[[str], Path], size: int | None) -> None:
    path = files("log")
    cut(path.with_name("store.db-wal"), size)
    assert any("-wal is gone" in damage.reason for damage in SqliteStore(path).recover().damaged)


def test_a_first_start_that_was_killed_is_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class KilledError(Exception):
        pass

    def kill(*_: object) -> None:
        raise KilledError

    for number, place in enumerate(("connect", "_create", "sync_directory")):
        path = tmp_path / f"{number}.db"
        with monkeypatch.context() as patched:
            patched.setattr(salvage, place, kill)
            with pytest.raises(KilledError):
                SqliteStore(path)
        if place == "connect":
            path.touch()
        store = SqliteStore(path)
        assert store.recover().damaged == (), place
        store.close()


def test_a_log_emptied_on_purpose_is_not_missed(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    store = SqliteStore(path)
    store.append(batch(0))
    assert path.with_name("store.db.lock").read_bytes() == b"made\nlog\n"
    store._file._room.reserved = False
    store._file._room.restore = lambda: False  # type: ignore[method-assign]
    store._file._make_room()
    assert path.with_name("store.db-wal").stat().st_size == 0
    copy = tmp_path / "copy"
    copy.mkdir()
    for one in ("store.db", "store.db-wal", "store.db.lock"):
        shutil.copy(tmp_path / one, copy)
    store.close()
    assert SqliteStore(copy / "store.db").recover().damaged == ()


def cut(path: Path, size: int | None) -> None:
    """Only so many bytes of it are there; None: it is gone."""
    if size is None:
        path.unlink()
    else:
        os.truncate(path, min(size, path.stat().st_size))
