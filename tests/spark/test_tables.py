"""Tables as others read them, and as they change: appends, merges, versions, small files, new columns, old layouts."""

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from hardening.support.recorded import record_world
from pyspark.sql import SparkSession

from tidings.errors import StoreError, UsageError
from tidings.model.tables import HISTORIES, MESSAGES, RUNS, Column, Table, Type
from tidings.pipeline.config import OptimizeOptions, load
from tidings.pipeline.jobs.ingest import ingest
from tidings.pipeline.jobs.optimize import optimize
from tidings.pipeline.jobs.registry import run_job
from tidings.pipeline.run import open_run
from tidings.pipeline.schemas import CLEAN, DAY
from tidings.pipeline.storage_paths import StoragePath
from tidings.pipeline.stored_tables import StoredTable, clean_table
from tidings.segments.reader import read_rows
from tidings.segments.writer import SegmentWriter

DAY_MS = 86_400_000


def messages(start: int, count: int, size: int = 100, *, ms: int = 1_000) -> list[dict[str, Any]]:
    rng = random.Random(start)
    common = {"publisher": 0, "broker": 0, "source": "b3", "size": size}
    ids = ((start + i).to_bytes(16, "big") for i in range(count))
    return [{**common, "id": id, "ms": ms + i, "message": rng.randbytes(size)} for i, id in enumerate(ids)]


@pytest.fixture
def source(tmp_path: Path) -> StoragePath:
    return StoragePath.of(tmp_path / "segments")


@pytest.fixture
def output(tmp_path: Path) -> StoragePath:
    return StoragePath.of(tmp_path / "tables")


def bytes_below(place: StoragePath) -> int:
    return sum(path.stat().st_size for path in Path(place.uri).rglob("*") if path.is_file())


def content(stored: StoredTable, spark: SparkSession, version: int | None = None) -> list[tuple[Any, ...]]:
    return sorted((bytes(row.id), row.ms, row.day) for row in stored.read(spark, version=version).collect())


def test_duckdb_polars_and_plain_parquet_read_what_spark_reads(
    spark: SparkSession, source: StoragePath, output: StoragePath
) -> None:
    writer = SegmentWriter(Path(source.uri), MESSAGES, "b3")
    writer.append(messages(0, 50) + messages(100, 50, ms=DAY_MS), 1_000)
    ingest(spark, source, output, "messages")
    writer.append(messages(140, 30, ms=DAY_MS + 40), 2_000)  # ten are copies
    ingest(spark, source, output, "messages")
    stored = clean_table(output, "messages")
    expected = content(stored, spark)
    assert len(expected) == 120
    frame = pl.read_delta(stored.place.uri)
    assert sorted(frame.select("id", "ms", DAY).rows()) == expected
    files = DeltaTable(stored.place.url).file_uris()
    names = [f"{stored.place.uri}/*/*.parquet", *files]
    for read in (names[:1], names[1:]):
        query = f"SELECT id, ms, CAST(day AS VARCHAR) FROM read_parquet({read!r}, hive_partitioning = true)"
        with duckdb.connect() as connection:
            assert sorted(connection.execute(query).fetchall()) == expected
    plain = spark.read.parquet(stored.place.pattern)
    assert sorted((bytes(row.id), row.ms, str(row.day)) for row in plain.collect()) == expected
    fields = {field.name: field.metadata for field in DeltaTable(stored.place.url).schema().fields}
    assert fields["ms"]["comment"] == next(c.about for c in MESSAGES.columns if c.name == "ms")


def test_new_rows_are_appended_and_others_are_not_written_again(
    spark: SparkSession, source: StoragePath, output: StoragePath
) -> None:
    writer = SegmentWriter(Path(source.uri), MESSAGES, "b3")
    writer.append(messages(0, 300, size=10_000), 1_000)
    ingest(spark, source, output, "messages")
    stored = clean_table(output, "messages")
    before, files = bytes_below(output), set(stored.paths())
    assert before > 3_000_000
    for number in range(3):
        writer.append(messages(1_000 + 10 * number, 10), 2_000 + number)
        state = ingest(spark, source, output, "messages")
    assert bytes_below(output) - before < 100_000
    assert files < set(stored.paths())
    assert state is not None
    assert (state.rows, stored.read(spark).count()) == (330, 330)
    assert state.inputs["newest"] == {"b3": 2_002}
    assert [(first, len(text)) for first, text in state.inputs["segments"]["b3"]] == [(0, 4 * 4)]


def test_a_filter_that_has_grown_replaces_its_earlier_copy_and_nothing_else(
    spark: SparkSession, source: StoragePath, output: StoragePath, tmp_path: Path
) -> None:
    record_world(tmp_path / "recorded", messages=60)
    rows: list[dict[str, Any]] = [dict(row) for row in read_rows(tmp_path / "recorded", HISTORIES)]
    rows = [row for row in rows if row["count"] > 1]
    first, last = rows[: len(rows) // 2], rows[len(rows) // 2 :]
    writer = SegmentWriter(Path(source.uri), HISTORIES, "b1")
    stored = clean_table(output, "histories")
    for number, some in enumerate((first, [*last, last[0] | {"count": 1}])):
        writer.append(some, 1_000 + number)
        ingest(spark, source, output, "histories")
    untouched = {place for place in stored.paths() if "/2-" in place.uri}
    grown = first[0] | {"count": first[0]["count"] + 5}
    writer.append([grown, first[1] | {"count": first[1]["count"] - 1}, last[1]], 3_000)
    state = ingest(spark, source, output, "histories")
    assert untouched <= set(stored.paths())
    counts = sorted(row["count"] for row in [grown, *first[1:], *last])
    assert sorted(row["count"] for row in stored.read(spark).select("count").collect()) == counts
    assert state is not None
    assert state.rows == len(rows)


def test_small_files_become_large_ones_and_what_was_made_of_them_stays_up_to_date(
    spark: SparkSession, source: StoragePath, output: StoragePath
) -> None:
    writer = SegmentWriter(Path(source.uri), MESSAGES, "b3")
    stored = clean_table(output, "messages")
    for number in range(4):
        writer.append(messages(10 * number, 10) + messages(1_000 + number, 1, ms=DAY_MS * (1 + number // 3)), number)
        ingest(spark, source, output, "messages")
    expected, state = content(stored, spark), stored.need()
    assert optimize(spark, stored, OptimizeOptions(files_max=10)) == 0
    assert optimize(spark, stored, OptimizeOptions(files_max=3)) > 3
    days = [one.partition[DAY] for one in stored.files()]
    assert days.count("1970-01-01") == 1
    assert days.count("1970-01-02") == 3
    assert content(stored, spark) == expected
    assert stored.need() == replace(state, number=state.number + 1)
    assert ingest(spark, source, output, "messages") is None


def test_a_table_goes_back_to_a_version_until_its_files_are_removed(
    spark: SparkSession, source: StoragePath, output: StoragePath
) -> None:
    writer = SegmentWriter(Path(source.uri), MESSAGES, "b3")
    stored = clean_table(output, "messages")
    versions = []
    for number in range(3):
        writer.append(messages(10 * number, 10), number)
        ingest(spark, source, output, "messages")
        versions.append(content(stored, spark))
    optimize(spark, stored, OptimizeOptions(files_max=1))
    assert [content(stored, spark, version) for version in range(3)] == versions
    with open_run(load(settings=[f"output={output.uri}", "restore.table=clean/messages", "restore.version=1"])) as run:
        (told,) = run_job(run, "restore")
        assert (told.rows, content(stored, spark)) == (20, versions[1])
    third = ingest(spark, source, output, "messages")  # its state was restored with it: the third segment is new again
    assert third is not None
    assert content(stored, spark) == versions[2]
    assert stored.vacuum(0) > 0
    assert content(stored, spark) == versions[2]
    with pytest.raises(StoreError, match="removed by vacuum"):
        stored.restore(3)
    with (
        open_run(load(settings=[f"output={output.uri}", "restore.table=messages"])) as run,
        pytest.raises(UsageError, match="tables are clean/samples"),
    ):
        run_job(run, "restore")


def test_a_table_grows_columns_and_refuses_what_is_no_growth(spark: SparkSession, output: StoragePath) -> None:
    old = Table("grown", 1, "one column", (Column("n", Type.INT, "a number"),))
    StoredTable(output, old).replace(spark.createDataFrame([(1,)], "n long"), {})
    new = Table("grown", 2, "two columns", (*old.columns, Column("why", Type.TEXT, "a reason", True)))
    stored = StoredTable(output, new)
    assert [tuple(row) for row in stored.read(spark).collect()] == [(1, None)]
    begun = stored.begin()
    stored.commit(stored.stage(begun, spark.createDataFrame([(2, "x")], "n long, why string")), lambda: ({}, {}))
    assert sorted(map(tuple, stored.read(spark).collect())) == [(1, None), (2, "x")]
    assert sorted(pl.read_delta(stored.place.uri).rows()) == [(1, None), (2, "x")]
    with pytest.raises(StoreError, match=r"E_STORE_VERSION.*this reads grown 1"):
        StoredTable(output, old).need()
    other = replace(new, columns=(replace(old.columns[0], type=Type.TEXT),))
    with pytest.raises(StoreError, match=r"E_STORE_VERSION.*column n is"):
        StoredTable(output, other).replace(spark.createDataFrame([("1",)], "n string"), {})
    assert sorted(map(tuple, stored.read(spark).collect())) == [(1, None), (2, "x")]


def test_tables_of_the_earlier_layout_are_converted_by_one_command(
    spark: SparkSession, source: StoragePath, output: StoragePath
) -> None:
    row = {"run": "r#1", "experiment": "e", "seed": None, "started_ms": 5, "ended_ms": 9_000}
    row |= {"parameters": "{}", "outcome": "done", "environment": "{}"}
    path = SegmentWriter(Path(source.uri), RUNS, "lab").append([row], 1_000)
    place = Path(output.under("clean", "runs").uri)
    folder = place / "data" / "1-abc" / "part=1970-01-01"
    folder.mkdir(parents=True)
    kept = row | {"segment": path.name, "position": 0, DAY: "1970-01-01"}
    pq.write_table(pa.Table.from_pylist([kept]).cast(old_schema()), folder / "part-0.parquet")
    parts = {"1970-01-01": {"folder": "1-abc/part=1970-01-01", "rows": 1}}
    inputs = {"segments": [path.name], "damaged": {}, "since": {"b1": 7}}
    manifest = {"number": 1, "table": "runs", "version": 1, "parts": parts, "inputs": inputs, "skipped": {"x": "y"}}
    (place / "manifest-00000001.json").write_text(json.dumps(manifest))
    with pytest.raises(StoreError, match="tidings pipeline migrate"):
        ingest(spark, source, output, "runs")
    with open_run(load(settings=[f"output={output.uri}"])) as run:
        assert [(one.table, one.state, one.rows) for one in run_job(run, "migrate")] == [("runs", "converted", 1)]
        assert [one.state for one in run_job(run, "migrate")] == ["no table has the earlier layout"]
    stored = clean_table(output, "runs")
    assert [(one.run, one.segment, one.day) for one in stored.read(spark).collect()] == [
        ("r#1", path.name, "1970-01-01")
    ]
    state = stored.need()
    assert (state.inputs["since"], state.skipped) == ({"b1": 7}, {"x": "y"})
    assert ingest(spark, source, output, "runs") is None, "its segment is known"
    assert not (place / "data").exists()


def old_schema() -> pa.Schema:
    kinds = {Type.INT: pa.int64(), Type.TEXT: pa.string()}
    return pa.schema([(c.name, kinds[c.type]) for c in CLEAN["runs"].columns] + [(DAY, pa.string())])
