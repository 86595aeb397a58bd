"""Spark's plans of what grows with history: only the columns that are needed, pruned files, no single task for all."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from hardening.support.recorded import TRACKING, record_messages, record_world
from pyspark.sql import DataFrame, SparkSession

from tidings.model.tables import HISTORIES, MESSAGES
from tidings.pipeline import time_buckets
from tidings.pipeline.config import load
from tidings.pipeline.delta_sink import read_delta
from tidings.pipeline.jobs.registry import run_job
from tidings.pipeline.jobs.trace import (
    TraceRecords,
    attachments_of,
    last_stored,
    located,
    recorded_changes,
    traces,
)
from tidings.pipeline.merging import merge
from tidings.pipeline.run import JobRun, open_run
from tidings.pipeline.schemas import CLEAN
from tidings.pipeline.stored_tables import clean_table
from tidings.pipeline.time_buckets import plan as plan_buckets
from tidings.pipeline.time_buckets import summary
from tidings.tracking.recording.recorder import TrackingSettings


@pytest.fixture(autouse=True, scope="module")
def whole_plans(spark: SparkSession) -> Iterator[None]:
    """Spark cuts descriptions of scans after 100 characters."""
    key = "spark.sql.maxMetadataStringLength"
    before = str(spark.conf.get(key))
    spark.conf.set(key, "10000")
    yield
    spark.conf.set(key, before)


def plan(rows: Any) -> str:
    text: str = rows._jdf.queryExecution().executedPlan().toString()
    return text


def columns_read(text: str) -> set[str]:
    """Of all scans of files in a plan."""
    found = re.findall(r"ReadSchema: struct<(.*?)>\n", text + "\n")
    return {name for one in found for name in re.findall(r"(\w+):", one)}


@pytest.fixture(scope="module")
def run(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Any:
    root = tmp_path_factory.mktemp("plans")
    world = record_world(root / "segments", messages=40)
    record_messages(root / "segments")
    ids = pa.array([bytes(message) for message, _ in world.sent], pa.binary())
    pq.write_table(pa.table({"id": ids}), root / "ids.parquet")
    with open_run(load(settings=[f"input={root}/segments", f"output={root}/tables"])) as opened:
        run_job(opened, "ingest")
        yield opened, spark.read.parquet(f"{root}/ids.parquet")


def test_a_trace_shuffles_ids_and_metadata_of_filters_never_their_bits(run: tuple[JobRun, DataFrame]) -> None:
    opened, ids = run
    filters = located(clean_table(opened.output, "histories"), opened.spark)
    records = TraceRecords("x", (), (), (), (), TrackingSettings(), 1)
    known = summary(ids)
    text = plan(traces(ids, known, filters, records, plan_buckets(ids, known, 2)))
    assert "FlatMapCoGroupsInArrow" in text
    assert "SinglePartition" not in text
    assert "data" in {column.name for column in HISTORIES.columns}
    assert "data" not in columns_read(text)
    assert "stored_ms" in columns_read(text)


def test_ids_meet_their_filters_in_however_many_buckets(
    run: tuple[JobRun, DataFrame], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, ids = run
    histories = clean_table(opened.output, "histories")
    filters, known = located(histories, opened.spark), summary(ids)
    changes = attachments_of(recorded_changes(clean_table(opened.output, "attachments").read(opened.spark)))
    stored, writers = last_stored(filters)
    records = TraceRecords(histories.place.uri, stored, changes, tuple(writers), (), TRACKING, 1 << 20)

    def traced(parallel: int) -> set[tuple[bytes, int]]:
        monkeypatch.setattr(time_buckets, "BUCKET_LEAST", known.proper // parallel)
        monkeypatch.setattr(time_buckets, "SLOTS", 7)
        cut = plan_buckets(ids, known, parallel)
        assert (cut.count == 1) == (parallel == 1)
        rows = traces(ids, known, filters, records, cut).collect()
        return {(bytes(row.id), row.path) for row in rows}

    assert known.improper == 0
    assert len(traced(1)) == known.proper == ids.count()
    assert traced(1) == traced(4) == traced(20)


def test_what_a_driver_collects_for_a_trace_has_a_row_for_each_process_and_writer(
    run: tuple[JobRun, DataFrame],
) -> None:
    opened, _ = run
    filters = located(clean_table(opened.output, "histories"), opened.spark)
    stored, writers = last_stored(filters)
    processes = {(row.broker, row.incarnation) for row in filters.select("broker", "incarnation").collect()}
    assert {(broker, incarnation) for broker, incarnation, _ in stored} == processes
    assert len(writers) < filters.count()
    changes = clean_table(opened.output, "attachments").read(opened.spark)
    assert len(recorded_changes(changes)) <= changes.count()


def test_an_ingest_reads_of_the_table_only_the_keys(run: tuple[JobRun, DataFrame]) -> None:
    opened, _ = run
    stored = clean_table(opened.output, "messages")
    rows = stored.read(opened.spark).limit(1).localCheckpoint()
    merged, _ = merge(opened.spark, stored, stored.begin(), rows, "messages")
    text = plan(merged)
    assert "message" in {column.name for column in MESSAGES.columns}
    assert "message" not in columns_read(text)
    assert "id" in columns_read(text)
    assert {"segment", "position"} <= {column.name for column in CLEAN["messages"].columns}


def test_an_archive_is_pruned_by_partition_and_by_bounds(spark: SparkSession, tmp_path: Path) -> None:
    rows = pa.table({"n": list(range(100)), "stock": ["a", "b"] * 50, "body": [b"x"] * 100})
    write_deltalake(tmp_path / "table", rows, partition_by=["stock"])
    found = read_delta(spark, tmp_path / "table").where("stock = 'a' AND n > 90").select("n")
    text = plan(found)
    assert re.search(r"PartitionFilters: \[.*stock.* = a", text)
    assert re.search(r"PushedFilters: \[.*GreaterThan\(n,90\)", text)
    assert columns_read(text) == {"n"}
    assert sorted(row.n for row in found.collect()) == [92, 94, 96, 98]
