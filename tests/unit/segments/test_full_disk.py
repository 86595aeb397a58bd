"""A disk that takes nothing: brokers run and answer, and nobody is told "absent" of a time that was not recorded."""

import asyncio
import errno
import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import IO

import pytest

from tidings.broker.tracking_thread import TrackingOptions, TrackingThread
from tidings.errors import StoreError
from tidings.model.message_id import MessageId
from tidings.model.tables import ATTACHMENTS, HISTORIES, Table
from tidings.segments import filter_catalog, retention
from tidings.segments.filter_catalog import FilterCatalog
from tidings.segments.history_store import HistoryStore
from tidings.segments.reader import segments
from tidings.segments.retention import SegmentRetention
from tidings.segments.writer import SegmentWriter
from tidings.tracking.query.archive import MemoryArchive
from tidings.tracking.recording.attachments import Attachment, AttachmentKind
from tidings.tracking.recording.history import FilterEncoding, HistoryEntry, HistoryKind, Key
from tidings.tracking.recording.recorder import Recorder, TrackingSettings
from tidings.tracking.trace_answer import TraceVerdict

KEY = Key(HistoryKind.PUBLISH, 1)
START_MS = 1_762_000_000_000
ERA = Attachment(AttachmentKind.ERA, "bloom", START_MS, attached=True, incarnation=7)


def entry(sequence: int, count: int = 1) -> HistoryEntry:
    at = START_MS + 1000 * sequence
    return HistoryEntry(KEY, sequence, (at, at + 10), (), count, False, FilterEncoding.BLOOM, bytes(64), at, at + 50, 1)


def refuse(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    """No file of a catalogue can be opened."""

    def connect(path: Path | None) -> sqlite3.Connection:
        if path is not None:
            error = sqlite3.OperationalError("refused")
            error.sqlite_errorcode = code
            raise error
        return usual(None)

    usual = filter_catalog._connect
    monkeypatch.setattr(filter_catalog, "_connect", connect)


def no_room(*_: object) -> None:
    raise StoreError("E_STORE_FULL", "no space left")


@pytest.fixture(name="filled")
def _filled(tmp_path: Path) -> Path:
    store = HistoryStore(tmp_path, 1)
    store.append([ERA], [entry(0)], START_MS)
    store.append([], [entry(1)], START_MS + 1000)
    store.close()
    return tmp_path


CODES = [sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY]


@pytest.mark.parametrize("code", CODES)
def test_a_catalogue_that_cannot_be_opened_is_kept_in_memory(
    filled: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    before = (filled / "catalog.db").read_bytes()
    refuse(monkeypatch, code)
    store = HistoryStore(filled, 1)
    assert store.recover(START_MS + 5000) == ([ERA], {1: START_MS + 1050})
    assert "refused" in str(store.archive.hindrance)
    store.append([], [entry(2)], START_MS + 2000)
    assert [len(store.archive.matching(1, KEY, START_MS + 1000 * i + 5)) for i in range(4)] == [1, 1, 1, 0]
    assert (filled / "catalog.db").read_bytes() == before, "it is not damaged, and the next process may want it"
    monkeypatch.undo()
    store.retire(START_MS + 5000)
    assert store.archive.hindrance is None
    store.close()
    with closing(FilterCatalog(filled / "catalog.db")) as catalog:
        assert len(catalog) == 3


def test_a_catalogue_that_may_not_grow_goes_on_in_memory(filled: Path) -> None:
    store = HistoryStore(filled, 1)
    database = store.archive._catalog._database
    ((pages,),) = database.execute("PRAGMA page_count").fetchall()
    database.execute(f"PRAGMA max_page_count = {pages}").fetchall()
    store.append([], [entry(number) for number in range(2, 500)], START_MS + 2000)
    assert store.archive.hindrance is not None
    assert len(store.archive) == 500
    assert len(segments(filled, HISTORIES)) == 3, "written once"
    assert len(store.archive.matching(1, KEY, START_MS + 400_005)) == 1
    store.close()
    store = HistoryStore(filled, 1)
    assert (len(store.archive), store.archive.hindrance, store.archive.since_ms) == (500, None, 0)
    store.close()


def test_a_catalogue_in_memory_leaves_no_file_that_speaks_of_what_is_gone(
    filled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse(monkeypatch, sqlite3.SQLITE_FULL)
    store = HistoryStore(filled, 1)
    store.append([], [entry(0, count=5)], START_MS + 2000)
    store.maintain()
    store.close()
    monkeypatch.undo()
    store = HistoryStore(filled, 1)
    assert (len(store.archive), store.archive.since_ms) == (2, 0), "what was stored again is not missed"
    store.close()


def test_a_catalogue_damaged_inside_is_made_anew(filled: Path) -> None:
    with sqlite3.connect(filled / "catalog.db") as database:
        ((page,),) = database.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'segments'").fetchall()
    database.close()
    with (filled / "catalog.db").open("r+b") as file:
        file.seek((page - 1) * 4096)
        file.write(b"\xff" * 4096)
    store = HistoryStore(filled, 1)
    assert (len(store.archive), store.archive.hindrance) == (2, None)
    store.close()


def test_what_cannot_be_deleted_for_want_of_room_keeps_nobody_from_running(
    filled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "mark", no_room)
    store = HistoryStore(filled, 1, SegmentRetention(age_ms_max=1))
    assert store.recover(START_MS + 9000)[0] == [ERA]
    assert [error.code for error in store.hindrances] == ["E_STORE_FULL"]
    assert len(store.archive) == 2
    monkeypatch.undo()
    store.retire(START_MS + 9000)
    assert len(store.archive) == 0
    store.close()


def test_a_segment_that_could_not_be_written_takes_no_room(filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    store, before = HistoryStore(filled, 1), sorted((filled / "histories").iterdir())
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(StoreError, match="E_STORE_FULL"):
        store.append([], [entry(2)], START_MS + 2000)
    assert sorted((filled / "histories").iterdir()) == before
    store.close()


def test_old_segments_go_from_a_full_disk(filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def open_(path: Path, mode: str = "r") -> IO[str]:
        if "w" in mode:
            raise OSError(errno.ENOSPC, "No space left on device")
        return usual(path, mode)

    store, usual = HistoryStore(filled, 1, SegmentRetention(age_ms_max=1)), Path.open
    store.recover(START_MS)
    assert len(store.archive) == 2
    monkeypatch.setattr(Path, "open", open_)
    store.retire(START_MS + 9000)
    monkeypatch.undo()
    assert len(store.archive) == 0
    assert segments(filled, HISTORIES) == []
    assert retention.since_ms(filled, HISTORIES) == START_MS + 1001, "and it is said up to when"
    store.close()


def test_a_mark_that_cannot_be_written_is_an_error_of_the_store(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="E_STORE_IO"):
        retention.mark(tmp_path, HISTORIES, "b1", START_MS)


def test_an_era_that_cannot_be_stored_is_known_to_the_next_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    asyncio.run(begin(tmp_path, 1))
    monkeypatch.setattr(SegmentWriter, "append_columns", no_room)
    first_ms = asyncio.run(begin(tmp_path, 2))
    assert caplog.messages == ["histories cannot be written"], "once, though it was tried again at the end"
    assert len([path for path in tmp_path.iterdir() if path.name.startswith("era-1-")]) == 1
    monkeypatch.undo()
    for incarnation in (3, 4):
        store = HistoryStore(tmp_path, 1)
        past, stored_ms = store.recover(first_ms + 9000)
        assert [change.incarnation for change in past if change.attached] == list(range(1, incarnation))
        recorder = Recorder(1, TrackingSettings(persist_ms=1), incarnation=incarnation)
        recorder.start(first_ms + 9000 + incarnation, past, stored_ms)
        asked = MessageId(1, 1, first_ms + 4000)
        assert recorder.answer(asked, MemoryArchive()).verdict is TraceVerdict.UNKNOWN
        own = Attachment(AttachmentKind.ERA, "bloom", first_ms + 9000, attached=True, incarnation=incarnation)
        store.append([own], [], first_ms + 9000)
        assert not [path for path in tmp_path.iterdir() if path.name.startswith("era-")]
        store.close()


async def begin(folder: Path, incarnation: int) -> int:
    """A process that starts and, if the disk lets it, ends; returns when it began."""
    thread = TrackingThread(TrackingOptions(TrackingSettings(persist_ms=1), folder), 1)
    recorder = Recorder(1, TrackingSettings(persist_ms=1), incarnation=incarnation)
    await thread.start(recorder, lambda _number, _answer: None)
    began_ms = recorder.attachments.first_ms
    assert began_ms is not None
    thread.store([effect.change for effect in recorder.close(began_ms + 1) if hasattr(effect, "change")], [])
    await thread.close()
    return began_ms


@pytest.mark.parametrize("table", [ATTACHMENTS, HISTORIES])
def test_a_segment_that_cannot_be_read_is_like_a_damaged_one(filled: Path, table: Table) -> None:
    hit = segments(filled, table)[0].path
    hit.unlink()
    hit.mkdir()
    (filled / "catalog.db").unlink()
    store = HistoryStore(filled, 1, SegmentRetention(age_ms_max=1))
    past, _ = store.recover(START_MS + 500)
    assert len(store.archive.damaged) == 1
    assert store.archive.since_ms > START_MS
    assert past == ([] if table is ATTACHMENTS else [ERA])
    store.retire(START_MS + 90_000)
    store.close()


def test_a_folder_that_is_a_file_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "tracking").write_bytes(b"")
    with pytest.raises(StoreError, match=r"E_STORE_IO: cannot open .*tracking"):
        HistoryStore(tmp_path / "tracking", 1)


def test_want_of_file_handles_is_not_damage(filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read_bytes(path: Path) -> bytes:
        raise OSError(24, "Too many open files", str(path))

    store = HistoryStore(filled, 1)
    monkeypatch.setattr(Path, "read_bytes", read_bytes)
    with pytest.raises(StoreError, match="E_STORE_IO"):
        store.recover(START_MS)
    monkeypatch.undo()
    assert store.recover(START_MS)[0] == [ERA]
    store.close()
