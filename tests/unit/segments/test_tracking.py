"""Histories and attachments in segments: the same answers as from memory."""

import random
import tempfile
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hardening.support.tracking import World, check_archive
from hypothesis import given, settings
from hypothesis import strategies as st

from tidings.errors import StoreError
from tidings.model.tables import ATTACHMENTS, HISTORIES
from tidings.segments.archive import SegmentArchive
from tidings.segments.reader import segments
from tidings.segments.retention import SegmentRetention, sweep
from tidings.segments.tracking import attachment_row, entry_columns, entry_row, read_attachments, row_entry
from tidings.segments.writer import SegmentWriter
from tidings.tracking.recording.attachments import Attachment, AttachmentKind
from tidings.tracking.recording.history import BloomSettings, FilterEncoding, HistoryEntry, HistoryKind, Key, Mode
from tidings.tracking.recording.recorder import Recorder, TrackingSettings
from tidings.tracking.recording.strategies import AsyncStrategy, BloomStrategy
from tidings.tracking.trace_answer import TraceVerdict


def world(seed: int, *, exact: bool = False) -> World:
    bloom = BloomSettings(8, 320, 6, 10, 6, Mode.RETAIN)
    strategy = AsyncStrategy(128, 10, 6) if exact else BloomStrategy(bloom)
    made = World(random.Random(seed), TrackingSettings(strategy, persist_ms=20), bloom, brokers=3)
    made.run(40, again=0.1, end=0.05)
    return made


def write(root: Path, stored: list[tuple[int, HistoryEntry]], each: int = 70) -> None:
    writer = SegmentWriter(root, HISTORIES, "w")
    for start in range(0, len(stored), each):
        rows = [entry_row(broker, entry) for broker, entry in stored[start : start + each]]
        writer.append(rows, now_ms=1000 + start)


@settings(max_examples=6)
@given(st.integers(0, 2**32), st.booleans())
def test_segments_and_memory_agree(seed: int, exact: bool) -> None:
    made = world(seed, exact=exact)

    def make(stored: list[tuple[int, HistoryEntry]]) -> SegmentArchive:
        write(root, stored)
        return SegmentArchive(root)

    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        check_archive(make, made.archive.entries())
        archive = SegmentArchive(root)
        assert all(archive.stored_ms(b) == made.archive.stored_ms(b) for b in made.links)
        for message, _ in made.sent[::5]:
            assert made.trace(message, archive=archive) == made.trace(message)


def test_large_filters_lie_in_groups_of_few_and_small_ones_in_groups_of_many(tmp_path: Path) -> None:
    rng = random.Random(3)
    large, small = rng.randbytes(400_000), [rng.randbytes(100) for _ in range(600)]
    filters = [large, large, *(rng.randbytes(400_000) for _ in range(3)), *small, rng.randbytes(3_000_000)]
    entries = [
        HistoryEntry(
            Key(HistoryKind.DELIVER, 1, str(row)), row, (row, row), (), 5, True, FilterEncoding.BLOOM, data, 1, 2
        )
        for row, data in enumerate(filters)
    ]
    write(tmp_path, [(3, entry) for entry in entries], each=1000)
    (segment,) = segments(tmp_path, HISTORIES)
    about = pq.ParquetFile(segment.path).metadata
    assert [about.row_group(group).num_rows for group in range(about.num_row_groups)] == [3, 256, 256, 90, 1]
    archive = SegmentArchive(tmp_path)
    for entry in entries:
        assert archive.matching(3, entry.key, entry.sequence) == [entry]


def test_a_filter_that_rots_where_only_its_checksum_tells_makes_the_archive_unsure(tmp_path: Path) -> None:
    made = world(5)
    write(tmp_path, made.archive.entries(), each=1000)
    (segment,) = segments(tmp_path, HISTORIES)
    data = bytearray(segment.path.read_bytes())
    group = pq.ParquetFile(segment.path).metadata.row_group(0)
    (filters,) = [one for one in map(group.column, range(group.num_columns)) if one.path_in_schema == "data"]
    data[filters.dictionary_page_offset + filters.total_compressed_size // 2] ^= 1
    segment.path.write_bytes(data)
    archive = SegmentArchive(tmp_path)
    assert archive.damaged == []
    message = made.sent[0][0]
    answer = Recorder(message.broker, made.settings, incarnation=99)
    answer.start(made.now_ms, made.changes[message.broker], archive.stored_ms(message.broker))
    assert answer.answer(message, archive).verdict is not TraceVerdict.ABSENT
    assert archive.damaged


def test_a_new_process_finds_what_the_old_one_stored(tmp_path: Path) -> None:
    made = world(7)
    write(tmp_path, made.archive.entries())
    writer = SegmentWriter(tmp_path, ATTACHMENTS, "w")
    for broker, changes in made.changes.items():
        for number, change in enumerate(changes):
            writer.append([attachment_row(broker, change)], now_ms=1000 + number)
    archive = SegmentArchive(tmp_path)
    for broker, truth in made.truth.items():
        past = read_attachments(tmp_path, broker)
        assert past == made.changes[broker]
        recorder = Recorder(broker, made.settings, incarnation=99)
        recorder.start(made.clock(broker), past, archive.stored_ms(broker))
        for key, messages in truth.safe.items():
            if key.kind in (HistoryKind.PUBLISH, HistoryKind.ROUTE):
                assert all(recorder.answer(message, archive).verdict is TraceVerdict.HELD for message in messages)


def test_a_damaged_segment_is_named_and_its_time_is_unknown(tmp_path: Path) -> None:
    made = world(3)
    stored = made.archive.entries()
    write(tmp_path, stored, each=10)
    victim = segments(tmp_path, HISTORIES)[2]
    victim.path.write_bytes(victim.path.read_bytes()[:-9])
    archive = SegmentArchive(tmp_path)
    assert [str(victim.path) in error.reason for error in archive.damaged] == [True]
    assert archive.since_ms == victim.name.created_ms + 1
    first = stored[0]
    assert first[1].span is not None
    (found,) = archive.matching(first[0], first[1].key, first[1].span[0])
    assert (found.sequence, found.count >= first[1].count) == (first[1].sequence, True)


def test_what_was_deleted_is_unknown_and_what_came_since_is_found(tmp_path: Path) -> None:
    stored = world(3).archive.entries()
    write(tmp_path, stored[:20], each=10)
    archive = SegmentArchive(tmp_path)
    assert archive.since_ms == 0
    SegmentWriter(tmp_path, HISTORIES, "w").append([entry_row(*one) for one in stored[20:25]], now_ms=5000)
    archive.refresh()
    entry = stored[24][1]
    moment = entry.span[0] if entry.span else entry.singles[0]
    assert any(found.sequence == entry.sequence for found in archive.matching(stored[24][0], entry.key, moment))
    sweep(tmp_path, HISTORIES, SegmentRetention(age_ms_max=3995), now_ms=5000)
    assert SegmentArchive(tmp_path).since_ms == 1001


def test_segments_that_vanish_or_rot_under_an_open_archive_make_it_unsure_not_fail(tmp_path: Path) -> None:
    stored = world(3).archive.entries()
    write(tmp_path, stored, each=10)
    archive = SegmentArchive(tmp_path)
    entry = stored[0][1]
    assert entry.span is not None
    found = len(archive.matching(stored[0][0], entry.key, entry.span[0]))
    assert found
    for number, segment in enumerate(segments(tmp_path, HISTORIES)):
        if number % 2:
            segment.path.unlink()
        else:
            segment.path.write_bytes(segment.path.read_bytes()[:-40])
    archive = SegmentArchive(tmp_path)
    write(tmp_path / "again", stored, each=10)
    late = SegmentArchive(tmp_path / "again")
    for segment in segments(tmp_path / "again", HISTORIES):
        segment.path.unlink()
    for each in (archive, late):
        assert each.matching(stored[0][0], entry.key, entry.span[0]) == []
        assert each.damaged
        assert each.since_ms >= 1000


def test_rows_and_entries() -> None:
    entry = HistoryEntry(
        Key(HistoryKind.DELIVER, 3, "audit"), 4, None, (5, 9), 2, False, FilterEncoding.BLOOM, b"x", 1, 2, 7
    )
    assert row_entry(entry_row(1, entry)) == entry
    columns = entry_columns(1, [entry, entry])
    assert [row_entry({name: column[i] for name, column in columns.items()}) for i in (0, 1)] == [entry, entry]
    with pytest.raises(StoreError, match="E_STORE_DAMAGED"):
        row_entry(entry_row(1, entry) | {"kind": "gossip"})
    change = Attachment(AttachmentKind.ERA, "", 5, True, 7)
    assert attachment_row(1, change)["kind"] == "era"
