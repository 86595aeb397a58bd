"""What a broker keeps on disk: order, retention, restarts, compaction, a disk that fails."""

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hardening.support.tracking import World

from tidings.broker import tracking_thread
from tidings.broker.tracking_thread import UNWRITTEN_BYTES_MAX, Unwritten
from tidings.errors import StoreError
from tidings.model.message_id import MessageId
from tidings.model.tables import ATTACHMENTS, HISTORIES
from tidings.segments import filter_catalog
from tidings.segments.archive import SegmentArchive
from tidings.segments.compaction import compact_segments
from tidings.segments.filter_catalog import FilterCatalog
from tidings.segments.history_store import ATTACHMENT_SEGMENTS_MAX, HistoryStore
from tidings.segments.key_store import KeyStore
from tidings.segments.reader import segments
from tidings.segments.retention import SegmentRetention
from tidings.tracking.recording.attachments import Attachment, AttachmentKind
from tidings.tracking.recording.history import (
    BloomHistory,
    BloomSettings,
    FilterEncoding,
    HistoryEntry,
    HistoryKind,
    Key,
    Mode,
)
from tidings.tracking.recording.recorder import TrackingSettings
from tidings.tracking.recording.strategies import BloomStrategy

KEY = Key(HistoryKind.PUBLISH, 1)
BLOOM = BloomSettings(100, 4096, 8)
START_MS = 1_762_000_000_000


def filled(first_ms: int, ids: int = 20, sequence: int = 0, *, singles: tuple[int, ...] = ()) -> HistoryEntry:
    history = BloomHistory(KEY, BLOOM)
    history.add(b"".join(bytes(MessageId(7, 1, first_ms + i)) for i in range(ids)), first_ms)
    (entry,) = history.close(first_ms + 50)
    return HistoryEntry(
        KEY, sequence, entry.span, singles, ids, False, FilterEncoding.BLOOM, entry.data, first_ms, first_ms + 50, 1
    )


def test_a_new_process_goes_on_with_the_catalogue_or_without_it(tmp_path: Path) -> None:
    for sequence in range(5):
        store = HistoryStore(tmp_path, 1)
        store.append([], [filled(START_MS + 1000 * sequence, sequence=sequence)], START_MS + 1000 * sequence)
        store.close()
    for wreck in (None, b"", b"no database at all, but long enough to look like one" * 100):
        if wreck is not None:
            (tmp_path / "catalog.db").write_bytes(wreck)
        store = HistoryStore(tmp_path, 1)
        assert len(store.archive) == 5
        assert [e.sequence for e in store.archive.matching(1, KEY, START_MS + 3005)] == [3]
        assert store.recover(START_MS)[1] == {1: START_MS + 4050}
        store.close()


@pytest.mark.parametrize("damage", [lambda data: data[:-20], lambda data: data[:50] + b"x" + data[51:], lambda _: b""])
def test_damaged_attachments_are_set_aside_and_keep_nobody_from_running(
    tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    store = HistoryStore(tmp_path, 1)
    changes = [Attachment(AttachmentKind.SUBSCRIBER, name, START_MS, attached=True, incarnation=1) for name in "ab"]
    for change in changes:
        store.append([change], [], START_MS)
    store.close()
    first, _ = segments(tmp_path, ATTACHMENTS)
    first.path.write_bytes(damage(first.path.read_bytes()))
    for now_ms, damaged in ((START_MS + 1000, 1), (START_MS + 2000, 0)):
        store = HistoryStore(tmp_path, 1)
        assert store.recover(now_ms)[0] == changes[1:]
        assert len(store.archive.damaged) == damaged
        assert store.archive.since_ms == START_MS + 1000, "who was there before is not known for certain"
        store.close()


def test_two_processes_do_not_share_a_folder(tmp_path: Path) -> None:
    store = HistoryStore(tmp_path, 1)
    with pytest.raises(StoreError, match="E_STORE_LOCKED"):
        HistoryStore(tmp_path, 1)
    with pytest.raises(StoreError, match="E_STORE_LOCKED"):
        compact_segments(tmp_path, 100)
    store.close()
    HistoryStore(tmp_path, 1).close()


def test_retention_by_age_and_size_makes_old_times_unknown(tmp_path: Path) -> None:
    store = HistoryStore(tmp_path, 1, SegmentRetention(age_ms_max=5000))
    for sequence in range(10):
        store.append([], [filled(START_MS + 1000 * sequence, sequence=sequence)], START_MS + 1000 * sequence)
    store.retire(START_MS + 9000)
    assert len(store.archive) == 6
    assert store.archive.since_ms == START_MS + 3001
    assert store.archive.matching(1, KEY, START_MS + 5) == []
    assert len(store.archive.matching(1, KEY, START_MS + 6005)) == 1
    store.close()
    sizes = [segment.path.stat().st_size for segment in segments(tmp_path, HISTORIES)]
    store = HistoryStore(tmp_path, 1, SegmentRetention(bytes_max=sum(sizes[-2:])))
    store.recover(START_MS + 9000)
    assert (len(store.archive), store.archive.since_ms) == (2, START_MS + 7001)
    store.close()
    assert SegmentArchive(tmp_path).since_ms == START_MS + 7001


def test_segments_of_outgrown_copies_go_and_the_last_copy_stays(tmp_path: Path) -> None:
    store = HistoryStore(tmp_path, 1)
    for ids in (5, 10, 20):
        store.append([], [filled(START_MS, ids)], START_MS + ids)
    store.append([], [filled(START_MS, 15)], START_MS + 30)  # late, and worth nothing
    store.maintain()
    assert len(segments(tmp_path, HISTORIES)) == 1
    (found,) = store.archive.matching(1, KEY, START_MS + 19)
    assert found.count == 20
    store.close()


def test_a_segment_that_somebody_else_deleted_makes_its_time_unknown(tmp_path: Path) -> None:
    store = HistoryStore(tmp_path, 1)
    store.append([], [filled(START_MS)], START_MS + 100)
    store.close()
    segments(tmp_path, HISTORIES)[0].path.unlink()
    store = HistoryStore(tmp_path, 1)
    assert store.archive.since_ms == START_MS + 101
    store.close()


def test_many_segments_of_attachments_become_one_that_says_the_same(tmp_path: Path) -> None:
    changes = [Attachment(AttachmentKind.ERA, "bloom", START_MS, True, 1)]
    changes += [
        Attachment(AttachmentKind.SUBSCRIBER, f"s{number}", START_MS + number, True, 1)
        for number in range(ATTACHMENT_SEGMENTS_MAX)
    ]
    store = HistoryStore(tmp_path, 1)
    for change in changes:
        store.append([change], [], change.ms)
    assert store.recover(START_MS + 5000)[0] == changes
    assert len(segments(tmp_path, ATTACHMENTS)) == 1
    assert store.recover(START_MS + 5000)[0] == changes
    store.close()


def test_attachments_written_bit_by_bit_are_soon_one_segment(tmp_path: Path) -> None:
    """A broker that thousands came to had thousands of files to read at once, and memory filled meanwhile."""
    store, made = HistoryStore(tmp_path, 1), []
    for number in range(60):
        now_ms = START_MS + number // 3
        made.append(Attachment(AttachmentKind.SUBSCRIBER, f"s{number}", now_ms, True, 1))
        store.append(made[-1:], [], now_ms)
        if number % 20 == 19:
            store.maintain()
    assert len(segments(tmp_path, ATTACHMENTS)) == 3
    store.close()
    store = HistoryStore(tmp_path, 1)
    assert store.recover(START_MS + 5000)[0] == made
    store.close()


def test_of_attachments_that_are_over_the_last_are_kept_while_it_runs(tmp_path: Path) -> None:
    store = HistoryStore(tmp_path, 1, attachments_max=10)
    store.append([Attachment(AttachmentKind.ERA, "bloom", START_MS, True, 1)], [], START_MS)
    for number in range(ATTACHMENT_SEGMENTS_MAX):
        now_ms = START_MS + 100 * (number + 1)
        visit = [Attachment(AttachmentKind.SUBSCRIBER, f"s{number}", now_ms + i, i == 0, 1) for i in range(2)]
        store.append(visit, [], now_ms)
    store.retire(now_ms)
    assert len(segments(tmp_path, ATTACHMENTS)) == 1
    assert store.archive.since_ms == now_ms - 1000 + 2
    kept = store.recover(now_ms)[0]
    assert {change.peer for change in kept} == {"bloom", *(f"s{number}" for number in range(54, 64))}
    store.close()
    assert SegmentArchive(tmp_path).since_ms == now_ms - 1000 + 2, "others must know it too"


def test_a_catalogue_forgets_histories_with_their_last_segment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filter_catalog, "KNOWN_MAX", 20)
    catalog = FilterCatalog(tmp_path / "catalog.db")
    entry, names = filled(START_MS), [f"{number:013}-b1-00000000-00000000.parquet" for number in range(30)]
    for number, name in enumerate(names):
        keys = [Key(HistoryKind.DELIVER, 1, f"s{number}.{i}") for i in range(5)]
        catalog.add(name, [(1, replace(entry, key=key, sequence=number)) for key in (*keys, KEY)])
        assert max(len(catalog._histories), len(catalog._sequences)) <= 20 + 6
    for name in names[:-1]:
        catalog.forget(name)
    left = [f"s29.{i}" for i in range(5)]
    assert [peer for (peer,) in catalog._database.execute("SELECT peer FROM histories ORDER BY peer")] == ["", *left]
    assert catalog._database.execute("SELECT count(DISTINCT history) FROM levels").fetchone() == (6,)
    assert [place.segment for place in catalog.find(1, KEY, START_MS + 5)] == names[-1:]
    assert catalog.find(1, Key(HistoryKind.DELIVER, 1, "s3.1"), START_MS + 5) == []
    catalog.close()


def test_stragglers_are_found_by_their_time(tmp_path: Path) -> None:
    store = HistoryStore(tmp_path, 1)
    one = filled(START_MS, singles=(5, 9))
    late = HistoryEntry(
        Key(HistoryKind.DELIVER, 3, "late"), 1, None, (5,), 1, False, FilterEncoding.BLOOM, one.data, 9, 9, 1
    )
    store.append([], [one, late], START_MS)
    assert store.archive.stragglers(1, 3, 5) == ["late"]
    assert store.archive.stragglers(1, 1, 5) == []  # not a delivery
    assert store.archive.stragglers(1, 3, 9) == []
    assert [entry.key for entry in store.archive.matching(1, late.key, 5)] == [late.key]
    store.close()


@pytest.mark.parametrize("seed", range(4))
def test_compaction_changes_no_answer(tmp_path: Path, seed: int) -> None:
    bloom = BloomSettings(8, 320, 6, 10, 6, Mode.ROTATE)
    made = World(random.Random(seed), TrackingSettings(BloomStrategy(bloom), persist_ms=20), bloom, brokers=3)
    made.run(60, again=0.1, end=0.05)
    saved = 0
    for broker in made.links:
        store = HistoryStore(tmp_path / str(broker), broker)
        for _, entry in [one for one in made.archive.entries() if one[0] == broker]:
            store.append([], [entry], entry.stored_ms)
        store.close()
        before = SegmentArchive(tmp_path / str(broker))
        found = {message: made.recorders[broker].answer(message, before).verdict for message, _ in made.sent}
        done = compact_segments(tmp_path / str(broker), bloom.capacity, run_bytes_max=30_000)
        assert done.segments_after < done.segments_before
        saved += done.filters_before - done.filters_after
        after = SegmentArchive(tmp_path / str(broker))
        assert {m: made.recorders[broker].answer(m, after).verdict for m in found} == found
        store = HistoryStore(tmp_path / str(broker), broker)  # with the old catalogue
        assert {m: made.recorders[broker].answer(m, store.archive).verdict for m in found} == found
        store.close()
    assert saved > 0


def test_what_cannot_be_written_is_found_until_it_is_too_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = Unwritten(SegmentArchive(tmp_path), KeyStore(tmp_path, (), SegmentRetention(), START_MS))
    archive.entries = [filled(START_MS, sequence=number) for number in range(3)]
    assert len(archive.matching(1, KEY, START_MS + 5)) == 3
    large = bytes(UNWRITTEN_BYTES_MAX)
    archive.entries.append(HistoryEntry(KEY, 9, None, (), 1, False, FilterEncoding.BLOOM, large, 0, START_MS + 99, 1))
    archive.shrink()
    assert [entry.sequence for entry in archive.entries] == [9]
    assert archive.since_ms == START_MS + 51
    archive.changes = [Attachment(AttachmentKind.SUBSCRIBER, "s", START_MS + 900 + i, True) for i in range(9)]
    monkeypatch.setattr(tracking_thread, "UNWRITTEN_CHANGES_MAX", 4)
    archive.shrink()
    assert (len(archive.changes), archive.since_ms) == (4, START_MS + 905)


def test_a_catalogue_of_another_version_is_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "catalog.db"
    catalog = FilterCatalog(path)
    catalog.add("0000000001000-b1-00000000-00000000.parquet", [(1, filled(START_MS))])
    catalog._database.execute("PRAGMA user_version = 99")
    catalog.close()
    assert len(FilterCatalog(path)) == 0
