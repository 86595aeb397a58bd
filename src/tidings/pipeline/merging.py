"""New rows of a clean table, merged into those it has: copies are left out, and files are replaced only where a row is.

Rows with equal keys are copies of one. Of a filter the copy with the highest count counts, of other rows the one that
came first. Only the keys of the days that new rows belong to are read; a file is written again only if it has a filter
of which a later copy has come, so what is written depends on what is new, not on how much is there.
"""

from collections.abc import Sequence
from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as f

from tidings.pipeline.delta_log import DataFile as File
from tidings.pipeline.schemas import COMPACTED, DAY, KEYS
from tidings.pipeline.stored_tables import Staged, StoredTable

GROWING = "histories"  # the table whose rows have a `count`, and later copies
FILTERS = (GROWING, COMPACTED.name)
GROUP_BYTES = 1 << 17


def merge(
    spark: SparkSession, stored: StoredTable, begun: Staged, rows: DataFrame, name: str
) -> tuple[DataFrame, list[File]]:
    """Rows to write, and the files of the table that they replace."""
    days = {row[DAY] for row in rows.select(DAY).distinct().collect()}
    fresh = distinct_rows(rows, name)
    there = [one for one in begun.there if one.partition[DAY] in days]
    replaced: list[File] = []
    if there and name == GROWING:
        fresh, replaced = _grown(spark, stored, there, fresh)
    elif there:
        known = _keys(stored.rows_of(spark, there), name)
        fresh = fresh.join(known, _same(fresh, known, name), "left_anti")
    arranged = fresh.hint("rebalance", DAY)  # files as large as Spark's advisory size, whatever the parallelism
    return arranged.sortWithinPartitions(*order_of(name)), replaced


def order_of(name: str) -> list[str]:
    """The order of rows in files of a clean table: filters history by history, as traces ask them (`filter_cache`)."""
    asked = ["origin", "broker", "kind", "peer", "opened_ms"] if name in FILTERS else []
    return [DAY, *asked, "segment", "position"]


def grouping(name: str, row_bytes: float) -> dict[str, str]:
    """Options that cut a table's files into row groups: filters are fetched by group, so large ones stand alone.

    >>> grouping("histories", 130_000), grouping("histories", 400), grouping("messages", 400)
    ({'parquet.block.row.count.limit': '1'}, {'parquet.block.row.count.limit': '327'}, {})
    """
    rows = max(1, int(GROUP_BYTES // max(1, row_bytes)))
    return {"parquet.block.row.count.limit": str(rows)} if name in FILTERS else {}


def distinct_rows(rows: DataFrame, name: str) -> DataFrame:
    """Removes duplicates: keeps the filter with the highest count, of other rows the one that was recorded first."""
    order = [f.col("segment"), f.col("position")]
    if name == GROWING:
        order.insert(0, f.col("count").desc())
    ranked = rows.withColumn("_rank", f.row_number().over(Window.partitionBy(*KEYS[name], DAY).orderBy(*order)))
    return ranked.where("_rank = 1").drop("_rank")


def _grown(
    spark: SparkSession, stored: StoredTable, there: Sequence[File], fresh: DataFrame
) -> tuple[DataFrame, list[File]]:
    """Filters that are new or have grown, with the other rows of the files that had them before."""
    current = stored.rows_of(spark, there, file=True)
    known = _keys(current, GROWING, "count", "_file")
    better = fresh.join(known, _same(fresh, known, GROWING) & (known["_count"] >= fresh["count"]), "left_anti")
    grown = _same(better, known, GROWING) & (known["_count"] < better["count"])
    stale = {row["__file"] for row in better.join(known, grown).select("__file").distinct().collect()}
    replaced = [one for one in there if one.path in stale]
    if not replaced:
        return better, []
    old, keys = stored.rows_of(spark, replaced), _keys(better, GROWING, "count")
    kept = old.join(keys, _same(old, keys, GROWING) & (keys["_count"] > old["count"]), "left_anti")
    return better.unionByName(kept), replaced


def _keys(rows: DataFrame, name: str, *more: str) -> DataFrame:
    """The keys of rows, under names of their own."""
    return rows.select(*(f.col(key).alias(f"_{key}") for key in (*KEYS[name], DAY, *more)))


def _same(rows: DataFrame, keys: DataFrame, name: str) -> Column:
    return reduce(and_, (rows[key].eqNullSafe(keys[f"_{key}"]) for key in (*KEYS[name], DAY)))
