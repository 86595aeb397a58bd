"""Segments good and bad, and runs that are killed: what the tables are then."""

import random
import re
import zlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest
from hardening.support.recorded import record_messages, record_world
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from typer.testing import CliRunner

from tidings.cli import make_app
from tidings.errors import StoreError, TidingsError
from tidings.model.tables import HISTORIES, MESSAGES, SAMPLES, Table
from tidings.pipeline.config import Config, load
from tidings.pipeline.jobs import ingest as taking
from tidings.pipeline.jobs.ingest import GONE, ingest
from tidings.pipeline.jobs.registry import run_job
from tidings.pipeline.jobs.trace import attachments_of, missing_ms
from tidings.pipeline.merging import merge
from tidings.pipeline.run import open_run
from tidings.pipeline.segment_ranges import SegmentRanges
from tidings.pipeline.segment_rows import segment_rows
from tidings.pipeline.storage_paths import StoragePath
from tidings.pipeline.stored_tables import StoredTable, clean_table
from tidings.pipeline.table_state import Manifest
from tidings.segments.names import SegmentName
from tidings.segments.reader import segments
from tidings.segments.retention import mark
from tidings.segments.tracking import attachment_row
from tidings.segments.writer import SegmentWriter
from tidings.tracking.recording.attachments import Attachment, AttachmentKind
from tidings.tracking.recording.recorder import TIME_MAX_MS


def spoil(root: Path) -> dict[str, str]:
    """One segment of each sort of damage; names and what must be said of them."""
    good = min((root / "histories").iterdir())
    data = good.read_bytes()
    name = SegmentName.parse(good.name)
    assert name is not None
    table = pq.read_table(good)
    old = table.replace_schema_metadata({b"tidings.table": b"histories", b"tidings.version": b"0"})
    pq.write_table(old, root / "old")
    older = (root / "old").read_bytes()
    (root / "old").unlink()
    spoiled = {
        "empty": (b"", zlib.crc32(data), "is empty"),
        "cut": (data[: len(data) // 2], zlib.crc32(data), "fail the checksum"),
        "flipped": (data[:100] + bytes([data[100] ^ 1]) + data[101:], zlib.crc32(data), "fail the checksum"),
        "text": (b"no Parquet", zlib.crc32(b"no Parquet"), "not a Parquet file"),
        "old": (older, zlib.crc32(older), "E_STORE_VERSION"),
    }
    told = {}
    for number, (writer, (bytes_, crc32, reason)) in enumerate(spoiled.items()):
        path = good.with_name(str(SegmentName(name.created_ms, writer, number, crc32)))
        path.write_bytes(bytes_)
        told[path.name] = reason
    (root / "histories" / "README.txt").write_text("not a segment")
    (root / "histories" / ".0000000000001-b1-00000000-00000000.parquet").write_bytes(b"being written")
    return told


def consumed(state: Manifest, names: list[str]) -> list[str]:
    """Those of some segments that a table's state says were ingested."""
    known = SegmentRanges.from_json(state.inputs["segments"])
    return [text for text in names if (name := SegmentName.parse(text)) is not None and name in known]


def test_bad_segments_are_skipped_counted_and_named(spark: SparkSession, tmp_path: Path) -> None:
    world = record_world(tmp_path / "segments", messages=60)
    told = spoil(tmp_path / "segments")
    manifest = ingest(spark, StoragePath.of(tmp_path / "segments"), StoragePath.of(tmp_path / "tables"), "histories")
    assert manifest is not None
    assert set(manifest.skipped) == set(told)
    assert all(reason in manifest.skipped[name] for name, reason in told.items())
    keys = {(broker, entry.incarnation, entry.sequence) for broker, entry in world.archive.entries()}
    assert manifest.rows == len(keys)  # of copies of a filter, one
    assert (
        ingest(spark, StoragePath.of(tmp_path / "segments"), StoragePath.of(tmp_path / "tables"), "histories") is None
    )
    missing = dict(missing_ms(manifest.inputs["since"], manifest.skipped))
    assert set(missing) == {"empty", "cut", "flipped", "text", "old"}


def test_a_segment_that_was_mended_is_read(spark: SparkSession, tmp_path: Path) -> None:
    record_messages(tmp_path / "segments", count=40, copies=10)
    source, output = StoragePath.of(tmp_path / "segments"), StoragePath.of(tmp_path / "tables")
    half = min((tmp_path / "segments" / "messages").iterdir())
    data = half.read_bytes()
    half.write_bytes(data[:100])  # still being copied
    first = ingest(spark, source, output, "messages")
    assert first is not None
    assert (first.rows, list(first.skipped)) == (20, [half.name])
    assert ingest(spark, source, output, "messages") is None
    half.write_bytes(data)
    second = ingest(spark, source, output, "messages")
    assert second is not None
    assert (second.rows, second.skipped) == (40, {})
    assert ingest(spark, source, output, "messages") is None


def test_a_segment_that_could_not_be_read_is_tried_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record_messages(tmp_path / "segments", count=40, copies=10)
    source, output = StoragePath.of(tmp_path / "segments"), StoragePath.of(tmp_path / "tables")
    first, second = sorted(path.name for path in (tmp_path / "segments" / "messages").iterdir())
    readable = segment_rows

    def unreadable(spark: SparkSession, places: list[StoragePath], table: Table) -> DataFrame:
        error = f.lit(f"E_STORE_IO: cannot read {first}: Permission denied")
        return readable(spark, places, table).withColumn("error", f.when(f.col("segment") == first, error))

    monkeypatch.setattr(taking, "segment_rows", unreadable)
    taken = ingest(spark, source, output, "messages")
    assert taken is not None
    assert (consumed(taken, [first, second]), list(taken.skipped)) == ([second], [first])
    monkeypatch.undo()
    taken = ingest(spark, source, output, "messages")  # the file is what it was
    assert taken is not None
    assert (consumed(taken, [first, second]), taken.skipped, taken.rows) == ([first, second], {}, 40)
    assert ingest(spark, source, output, "messages") is None


def test_segments_that_go_while_they_are_read_are_left_out_until_the_next_run(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker that runs deletes copies of filters that have grown since, at any moment."""
    record_world(tmp_path / "segments", messages=60)
    source, output = StoragePath.of(tmp_path / "segments"), StoragePath.of(tmp_path / "tables")
    paths = [one.path for one in segments(tmp_path / "segments", HISTORIES)]
    copies = {path: path.read_bytes() for path in paths}
    read, merged = segment_rows, merge
    looks = 0

    def slow_read(spark: SparkSession, places: list[StoragePath], table: Table) -> DataFrame:
        nonlocal looks
        looks += 1
        if looks == 1:  # before it is read: whatever came in its place is looked at too
            paths[0].unlink()
        return read(spark, places, table)

    def slow_merge(*arguments: Any) -> Any:
        for path in paths[1:3]:  # after it was read
            path.unlink()
        return merged(*arguments)

    monkeypatch.setattr(taking, "segment_rows", slow_read)
    monkeypatch.setattr(taking, "merge", slow_merge)
    first = ingest(spark, source, output, "histories")
    assert first is not None
    assert first.skipped == dict.fromkeys((paths[1].name, paths[2].name), GONE)
    assert consumed(first, [path.name for path in paths]) == [path.name for path in paths[3:]]
    assert dict(missing_ms({}, first.skipped)), "a trace must not say no for certain"
    monkeypatch.undo()
    for path, data in copies.items():
        path.write_bytes(data)
    second = ingest(spark, source, output, "histories")
    assert second is not None
    names = [path.name for path in paths]
    assert (second.skipped, consumed(second, names)) == ({}, names)
    calm = ingest(spark, source, StoragePath.of(tmp_path / "calm"), "histories")
    assert calm is not None
    assert calm.rows == second.rows


def test_what_fails_inside_spark_is_one_line(spark: SparkSession, tmp_path: Path) -> None:
    record_messages(tmp_path / "segments", count=4, copies=0)
    (tmp_path / "file").touch()
    words = ["pipeline", "ingest", "--input", f"{tmp_path}/segments", "--output", f"{tmp_path}/file/tables"]
    failed = CliRunner().invoke(make_app(["pipeline"]), words).exception
    assert isinstance(failed, TidingsError)
    assert re.fullmatch(r"E_SPARK: .*not a directory: .*/file \(.*\)", str(failed))  # a dot is no line feed


def test_names_of_folders_are_no_patterns(spark: SparkSession, tmp_path: Path) -> None:
    record_messages(tmp_path / "a [1]{b}*?" / "segments", count=40, copies=10)
    (tmp_path / "a:b").mkdir()  # which no pattern of Spark's gets past
    root = StoragePath.of(tmp_path / "a [1]{b}*?")
    taken = ingest(spark, root.under("segments"), root.under("tables"), "messages")
    assert taken is not None
    assert (taken.rows, taken.skipped) == (40, {})
    assert clean_table(root.under("tables"), "messages").read(spark).count() == 40


def test_what_retention_deleted_is_missed_unless_it_was_taken_in_before(spark: SparkSession, tmp_path: Path) -> None:
    record_world(tmp_path / "segments", messages=60)
    source, output = StoragePath.of(tmp_path / "segments"), StoragePath.of(tmp_path / "tables")
    newest = max(one.name.created_ms for one in segments(tmp_path / "segments", HISTORIES) if one.name.writer == "b1")
    mark(tmp_path / "segments", HISTORIES, "b2", 5_000)
    since = []
    for ms in (newest, newest + 1):  # the second: of one that was never seen here
        taken = ingest(spark, source, output, "histories")
        since.append({} if taken is None else taken.inputs["since"])
        mark(tmp_path / "segments", HISTORIES, "b1", ms)
    taken = ingest(spark, source, output, "histories")
    assert taken is not None
    assert [*since, taken.inputs["since"]] == [{"b2": 5_000}, {}, {"b1": newest + 1, "b2": 5_000}]


def test_up_to_when_something_is_missing() -> None:
    early, late, later = (str(SegmentName(ms, "b1", number, 0)) for number, ms in enumerate((1000, 2000, 3000)))
    era = SimpleNamespace(segment=later, kind="era", ms=2900)
    assert dict(missing_ms({}, [])) == {}  # whatever the number of the first segment: those before were superseded
    assert dict(missing_ms({"b2": 7}, [early, late])) == {"b2": 7, "b1": 2001}
    assert dict(missing_ms({}, [], [early], [era])) == {"b1": 2900}, "who came then went at the end of the process"
    assert dict(missing_ms({}, [], [later], [era])) == {"b1": TIME_MAX_MS}
    other = SimpleNamespace(segment=later.replace("b1", "b2"), kind="era", ms=2900)
    assert dict(missing_ms({}, [], [early], [other])) == {"b1": TIME_MAX_MS}


def test_attachments_that_were_taken_in_twice_count_once() -> None:
    """A broker writes small segments again as one."""
    changes = [
        Attachment(AttachmentKind.ERA, "bloom", 100, True, 1),
        Attachment(AttachmentKind.NEIGHBOUR, "2", 110, True, 1),
        Attachment(AttachmentKind.ERA, "bloom", 200, False, 1),
        Attachment(AttachmentKind.ERA, "bloom", 300, True, 2),
        Attachment(AttachmentKind.SUBSCRIBER, "s", 310, True, 2),
    ]

    def rows(segment: str, some: list[Attachment]) -> list[SimpleNamespace]:
        made = [attachment_row(1, change) for change in some]
        return [SimpleNamespace(segment=segment, position=i, **row) for i, row in enumerate(made)]

    ((_, once),) = attachments_of(rows("a", changes))
    assert list(once) == changes
    ((_, twice),) = attachments_of(rows("a", changes[:4]) + rows("b", changes))
    assert [one for one in twice if one.kind is AttachmentKind.ERA] == [changes[0], changes[2], changes[3]]
    assert list(dict.fromkeys(twice)) == changes


def test_days_that_new_rows_do_not_touch_stay_as_they_are(spark: SparkSession, tmp_path: Path) -> None:
    source, output = StoragePath.of(tmp_path / "segments"), StoragePath.of(tmp_path / "tables")
    record_messages(tmp_path / "segments", count=40, copies=10)
    first = ingest(spark, source, output, "messages")
    assert first is not None
    assert first.rows == 40  # ten were archived twice
    row = {"id": bytes(16), "publisher": 0, "broker": 0, "ms": 86_400_000, "source": "b3", "size": 1, "message": b"x"}
    SegmentWriter(tmp_path / "segments", MESSAGES, "b3").append([row], 3_000)
    second = ingest(spark, source, output, "messages")
    assert second is not None
    assert set(second.parts) == {"1970-01-01", "1970-01-02"}
    assert second.parts["1970-01-01"] == first.parts["1970-01-01"]
    assert second.rows == 41


def test_days_are_those_of_utc_and_a_time_that_has_none_stops_nothing(spark: SparkSession, tmp_path: Path) -> None:
    source, output = StoragePath.of(tmp_path / "segments"), StoragePath.of(tmp_path / "tables")
    row = {"run": "r", "source": "s", "metric": "m_ms", "value": 1.0, "labels": "{}"}
    ordinary = {-1: "1969-12-31", 0: "1970-01-01", 1_794_873_600_000: "2026-11-17", 1_794_959_999_999: "2026-11-17"}
    last = {-62_135_596_800_000: "0001-01-01", 253_402_300_799_999: "9999-12-31"}
    absurd = dict.fromkeys((-62_135_596_800_001, 253_402_300_800_000, 2**62, 2**63 - 1, -(2**63)), "all")
    wanted = ordinary | last | absurd
    SegmentWriter(tmp_path / "segments", SAMPLES, "x1").append([row | {"ms": ms} for ms in wanted], 1_000)
    zone = "spark.sql.session.timeZone"
    before = str(spark.conf.get(zone))
    spark.conf.set(zone, "America/New_York")
    try:
        taken = ingest(spark, source, output, "samples")
    finally:
        spark.conf.set(zone, before)
    assert taken is not None
    assert (set(taken.parts), taken.skipped) == (set(wanted.values()), {})
    assert {one.ms: one.day for one in clean_table(output, "samples").read(spark).collect()} == wanted


class Killed(BaseException):
    """Not an error that anything would catch."""


def test_a_run_that_is_killed_anywhere_and_repeated_gives_the_same_tables(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record_world(tmp_path / "segments", messages=60)
    record_messages(tmp_path / "segments", count=40)

    def tables(output: Path) -> dict[str, list[str]]:
        with open_run(config(output)) as run:
            stored = [clean_table(run.output, name) for name in ("histories", "attachments", "messages")]
            stored += [run.compacted(), run.result("traces"), run.result("paths")]
            # Which row of a task holds a report is chance.
            return {one.table.name: sorted(map(repr, one.read(spark).drop("report").collect())) for one in stored}

    def config(output: Path) -> Config:
        now = ["optimize.retention_hours=0"]
        return load(settings=[f"input={tmp_path}/segments", f"output={output}", *now])

    def work(output: Path) -> None:
        with open_run(config(output)) as run:
            for job in ("ingest", "compact", "trace"):
                run_job(run, job)

    work(tmp_path / "calm")
    expected = tables(tmp_path / "calm")
    assert all(expected.values())
    rng, commit = random.Random(5), StoredTable._commit
    for attempt in range(3):  # dies before or after a manifest appears, at some table
        left = [rng.randrange(1, 3)]

        def dying(self: StoredTable, *change: Any, left: list[int] = left, early: bool = attempt % 2 == 0) -> None:
            left[0] -= 1
            if left[0] == 0 and early:
                raise Killed
            commit(self, *change)
            if left[0] == 0:
                raise Killed

        monkeypatch.setattr(StoredTable, "_commit", dying)
        with pytest.raises(Killed):
            work(tmp_path / "killed")
    monkeypatch.setattr(StoredTable, "_commit", commit)
    work(tmp_path / "killed")
    assert tables(tmp_path / "killed") == expected
    with open_run(config(tmp_path / "killed")) as run:
        run_job(run, "optimize")
        for stored in (clean_table(run.output, "histories"), run.result("traces")):
            left_lying = {place.uri for place, _, _ in stored.place.list(recursive=True) if place.is_file()}
            assert left_lying == {place.uri for place in stored.paths()}
    assert tables(tmp_path / "killed") == expected


def test_two_runs_at_a_time_do_not_mix(spark: SparkSession, tmp_path: Path) -> None:
    record_world(tmp_path / "segments", messages=30)
    source, output = StoragePath.of(tmp_path / "segments"), StoragePath.of(tmp_path / "tables")
    stored = clean_table(output, "attachments")
    first = stored.begin()
    made = ingest(spark, source, output, "attachments")
    assert made is not None
    for begun in (first, stored.begin()):  # of no table, of one
        rows = stored.read(spark)
        if begun is not first:
            stored.replace(rows, made.inputs)  # another run is faster
        with pytest.raises(StoreError, match="E_STORE_LOCKED"):
            stored.commit(stored.stage(begun, rows), lambda: ({}, {}))
    assert stored.read(spark).count() == made.rows
