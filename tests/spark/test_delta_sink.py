"""Streams into Delta tables: each row once, however often a batch comes again, and whoever else appends."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import SparkSession

from tidings.client import sync
from tidings.errors import StoreError, UsageError
from tidings.pipeline.delta_log import DeltaLog
from tidings.pipeline.delta_sink import DeltaSink, read_archived, read_delta
from tidings.testing.local_broker import BrokerThread


def write(folder: Path, number: int) -> None:
    folder.mkdir(exist_ok=True)
    rows = {"n": list(range(10 * number, 10 * number + 10)), "stock": ["a", "b"] * 5}
    pq.write_table(pa.table(rows), folder / f"{number}.parquet")


def stream(spark: SparkSession, root: Path, sink: DeltaSink, checkpoint: str = "check") -> None:
    rows = spark.readStream.schema("n bigint, stock string").option("maxFilesPerTrigger", 1).parquet(f"{root}/files")
    started = rows.writeStream.foreachBatch(sink).option("checkpointLocation", f"{root}/{checkpoint}")
    query = started.trigger(availableNow=True).start()
    try:
        assert query.awaitTermination(600)
    finally:
        query.stop()


def numbers(root: Path) -> list[int]:
    found: list[int] = sorted(pl.read_delta(f"{root}/table")["n"])
    return found


def test_a_batch_is_appended_once_wherever_its_driver_ends(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):
        write(tmp_path / "files", number)
    commit, commits = DeltaLog.commit, 0

    def dying(self: DeltaLog, *arguments: Any) -> bool:
        nonlocal commits
        commits += 1
        if commits % 4 == 1:
            raise KeyError("killed before the commit")
        done = commit(self, *arguments)
        if commits % 4 == 3:
            raise KeyError("killed after the commit")
        return done

    monkeypatch.setattr(DeltaLog, "commit", dying)
    deaths = 0
    for _ in range(9):
        try:
            stream(spark, tmp_path, DeltaSink(tmp_path / "table"))
            break
        except StreamingQueryException as error:
            deaths += "killed" in str(error)
    assert deaths > 2
    assert numbers(tmp_path) == list(range(40))
    assert read_delta(spark, tmp_path / "table", version=0).count() == 10
    monkeypatch.undo()
    query = json.loads((tmp_path / "check" / "metadata").read_text())["id"]
    staged = tmp_path / "table" / "_staged"
    for of in (query, "another"):  # as killed drivers leave them
        (staged / f"{of}-4-abc").mkdir(parents=True)
    write(tmp_path / "files", 4)
    stream(spark, tmp_path, DeltaSink(tmp_path / "table"))
    assert [one.name for one in staged.iterdir()] == ["another-4-abc"]
    stream(spark, tmp_path, DeltaSink(tmp_path / "table"), "another")
    assert numbers(tmp_path) == sorted([*range(50), *range(50)]), "another checkpoint is another query"


def test_others_may_append_meanwhile_and_columns_may_grow(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "files", 0)
    older = pa.table({"n": pa.array([-1], pa.int64())})
    write_deltalake(tmp_path / "table", older)
    load, between = DeltaLog.load, [older]

    def load_late(self: DeltaLog, version: int | None = None) -> DeltaTable | None:
        found = load(self, version)
        if between and (tmp_path / "table" / "_staged").exists():  # after the files were written, before the commit
            write_deltalake(tmp_path / "table", between.pop(), mode="append")
        return found

    monkeypatch.setattr(DeltaLog, "load", load_late)
    stream(spark, tmp_path, DeltaSink(tmp_path / "table"))
    assert numbers(tmp_path) == [-1, -1, *range(10)]
    rows = read_delta(spark, tmp_path / "table").where("stock = 'a' OR stock IS NULL").collect()
    assert sorted(row.n for row in rows) == [-1, -1, 0, 2, 4, 6, 8]


def test_tables_are_partitioned_by_columns_and_values_that_no_path_takes_are_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    write(tmp_path / "files", 0)
    stream(spark, tmp_path, DeltaSink(tmp_path / "table", ["stock"]))
    assert numbers(tmp_path) == list(range(10))
    assert {path.name for path in (tmp_path / "table").glob("stock=*")} == {"stock=a", "stock=b"}
    assert read_delta(spark, tmp_path / "table").where("stock = 'b'").count() == 5
    odd = pa.table({"n": pa.array([77], pa.int64()), "stock": ["a b/c"]})
    pq.write_table(odd, tmp_path / "files" / "odd.parquet")
    with pytest.raises(StreamingQueryException, match="E_SOURCE_COLUMN"):
        stream(spark, tmp_path, DeltaSink(tmp_path / "table", ["stock"]))
    assert numbers(tmp_path) == list(range(10))


def test_what_is_no_table_or_no_stream_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="E_PIPELINE_TABLE"):
        read_delta(spark, tmp_path / "nothing")
    with pytest.raises(UsageError, match="E_SOURCE_STREAM"):
        DeltaSink(tmp_path / "table")(spark.range(1).toDF("n"), 0)


def test_an_archived_subscription_is_read_from_its_table_and_only_the_rest_from_the_broker(
    spark: SparkSession, broker: BrokerThread, tmp_path: Path, patiently: Callable[[Callable[[], None]], None]
) -> None:
    def archive() -> None:
        source = spark.readStream.format("tidings").options(**options, maxMessagesPerBatch=20)
        begun = source.schema("offset bigint, n bigint").load().writeStream.foreachBatch(DeltaSink(tmp_path / "table"))
        query = begun.option("checkpointLocation", f"{tmp_path}/check").trigger(availableNow=True).start()
        assert query.awaitTermination(600)

    def everything() -> list[int]:
        return sorted(row.n for row in read_archived(spark, tmp_path / "table", **options).collect())

    with sync.connect(broker.url) as client:
        kept = client.retain("archived", "archived.>")
        options = {"url": broker.url, "subscription": "archived"}
        for n in range(45):
            client.publish("archived.a", {"n": n}, persistent=True)
        patiently(archive)
        assert everything() == numbers(tmp_path) == list(range(45))
        last = kept.range()[1]
        for n in range(45, 50):
            client.publish("archived.a", {"n": n}, persistent=True)
        kept.release(last)
        assert numbers(tmp_path) == list(range(45))
        assert everything() == list(range(50)), "the table's rows are gone from the broker"
        assert read_archived(spark, tmp_path / "table", **options).where("n >= 44").count() == 6
        kept.release(last + 2)
        with pytest.raises(PySparkException, match="E_SOURCE_LOSS"):
            everything()
    write_deltalake(tmp_path / "plain", pa.table({"n": [1]}))
    with pytest.raises(UsageError, match="has no column offset"):
        read_archived(spark, tmp_path / "plain", url="tidings://127.0.0.1:1", subscription="x")
