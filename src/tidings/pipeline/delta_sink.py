"""Streams into Delta tables without a jar: each batch is appended once, also when drivers are killed and start again.

    rows.writeStream.foreachBatch(DeltaSink("warehouse/ticks")).option("checkpointLocation", "check").start()

Spark writes a batch's Parquet files; the driver commits them together with the number of the batch, under the
identifier that the query has in its checkpoint. A batch that comes again after a crash finds its number in the table's
log and is left out. Another checkpoint is another query, and appends its batches, too.
"""

import json
import re
from collections.abc import Sequence
from os import PathLike
from typing import Any
from uuid import uuid4

import pyarrow as pa
from deltalake import DeltaTable, Schema
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from tidings.errors import StoreError, UsageError
from tidings.pipeline.delta_log import DeltaLog
from tidings.pipeline.storage_paths import StoragePath

STAGED = "_staged"
ATTEMPTS_MAX = 20  # at a commit, against others that append at the same time
_PLAIN = re.compile(r"[A-Za-z0-9_.-]+")


class DeltaSink:
    """A function for `foreachBatch`. `query` names the query where Spark does not (Spark Connect): one for each
    checkpoint."""

    def __init__(self, uri: str | PathLike[str], partition_by: Sequence[str] = (), *, query: str = "") -> None:
        self._place, self._partition_by, self._query = StoragePath.of(uri), list(partition_by), query

    def __call__(self, batch: DataFrame, number: int) -> None:
        context = getattr(batch.sparkSession, "sparkContext", None)  # not of Spark Connect
        query = self._query or (context and context.getLocalProperty("sql.streaming.queryId"))
        if not query:
            reason = (
                "Spark does not name the query; use DeltaSink with foreachBatch only, under Spark Connect with query="
            )
            raise UsageError("E_SOURCE_STREAM", reason)
        schema = Schema.from_json(batch.schema.json())
        log = DeltaLog(self._place, schema, self._partition_by)
        if _has(log.load(), query, number):
            return
        for left, _, _ in self._place.under(STAGED).list():  # by drivers of this query that were killed
            if left.name.startswith(f"{query}-"):
                left.remove_folder()
        folder = self._place.under(STAGED, f"{query}-{number}-{uuid4().hex[:8]}")
        writer = batch.write.option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")
        (writer.partitionBy(*self._partition_by) if self._partition_by else writer).parquet(folder.uri)
        files = log.take(folder)
        folder.remove_folder()
        for file in files:
            for name, value in file.partition.items():
                if not _PLAIN.fullmatch(value) or value.startswith("__HIVE"):
                    reason = f"{name}={value}: take a column whose values are letters, digits, '_', '.' and '-'"
                    raise UsageError("E_SOURCE_COLUMN", f"tables cannot be partitioned by {reason}")
        adds = [action for action, rows in (log.addition(one, data_change=True) for one in files) if rows]
        for _ in range(ATTEMPTS_MAX):
            table = log.load()
            if _has(table, query, number) or log.commit(table, adds, [], number, query):
                return
        raise StoreError("E_STORE_LOCKED", f"{self._place.uri}: {ATTEMPTS_MAX} commits were overtaken by others")


def _has(table: DeltaTable | None, query: str, number: int) -> bool:
    """Reports whether the batch was committed before."""
    last = None if table is None else table.transaction_version(query)
    return last is not None and last >= number


def read_archived(spark: SparkSession, uri: str | PathLike[str], **options: Any) -> DataFrame:
    """The rows of a table that a stream of the source `tidings` fills, and what the broker has above its last offset.

    The table has a column `offset`. Workers read its files; the broker is asked for the rest only, with the options
    given here: those of the stream, whose filters have to be repeated on the result.
    """
    rows, place = read_delta(spark, uri), StoragePath.of(uri)
    if "offset" not in rows.columns:
        raise UsageError("E_SOURCE_COLUMN", f"{place.uri} has no column offset: add it to the schema of the stream")
    table = DeltaTable(place.url)
    actions = pa.table(table.get_add_actions(flatten=True))
    known = actions["max.offset"].to_pylist() if "max.offset" in actions.column_names else []
    if any(last is None for last in known):  # written without statistics
        known = [row[0] for row in rows.agg({"offset": "max"}).collect()]
    last = max((one for one in known if one is not None), default=0)
    tail = spark.read.format("tidings").options(**options, startOffset=last).schema(rows.schema).load()
    return rows.unionByName(tail)


def read_delta(spark: SparkSession, uri: str | PathLike[str], version: int | None = None) -> DataFrame:
    """The rows of a Delta table, as it is or as it was at a version."""
    place = StoragePath.of(uri)
    table = DeltaLog(place, Schema([])).load(version)
    if table is None:
        raise StoreError("E_PIPELINE_TABLE", f"there is no Delta table at {place.uri}")
    schema = StructType.fromJson(json.loads(table.schema().to_json()))
    paths = [place.under(one.path).pattern for one in DeltaLog(place, table.schema()).files(table)]
    if not paths:
        return spark.createDataFrame([], schema)
    return spark.read.schema(schema).option("basePath", place.uri).parquet(*paths).select(*schema.fieldNames())
