"""From segments to clean tables: checked, without copies, by day.

Workers read each new segment as a whole and check it as a broker would (checksum, table, version); Spark reads the rows
of those that pass. One that does not is left out and named in the manifest with the reason; should it be put right
(the name is its checksum, so that is another segment), it counts as new. Days that new rows belong to are computed
anew from what they held and what came; other days are not touched.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as f

from tidings.errors import StoreError
from tidings.model.tables import TABLES, Table
from tidings.pipeline.places import Place
from tidings.pipeline.schemas import CLEAN, DAY, DAY_OF, KEYS, spark_schema
from tidings.pipeline.storage import WHOLE, Manifest, Stored
from tidings.segments.names import SegmentName
from tidings.segments.reader import open_bytes

SEGMENTS_PER_TASK = 64
CHECKED = "uri string, error string"


@dataclass(frozen=True, slots=True)
class Listing:
    """Segments of one table: which are new since the manifest."""

    new: list[Place]
    known: list[str]  # names consumed before, by number


def clean_table(output: Place, name: str) -> Stored:
    return Stored(output.under("clean"), CLEAN[name], by_day=True)


def listing(source: Place, stored: Stored) -> Listing:
    manifest = stored.manifest()
    known = [] if manifest is None else list(manifest.inputs["segments"])
    seen = set(known) | set({} if manifest is None else manifest.skipped)
    places = [place for place, _, _ in source.under(stored.table.name).list()]
    new = [place for place in places if SegmentName.parse(place.name) is not None and place.name not in seen]
    return Listing(new, known)


def ingest(spark: SparkSession, source: Place, output: Place, name: str) -> Manifest | None:
    """Take in what is new of one table; None: there is nothing new."""
    stored, table = clean_table(output, name), TABLES[name]
    found = listing(source, stored)
    if not found.new:
        return None
    bad = check(spark, found.new, table)
    good = [place for place in found.new if place.name not in bad]
    before = stored.manifest()
    skipped = (dict(before.skipped) if before is not None else {}) | bad
    consumed = {"segments": sorted([*found.known, *(place.name for place in good)])}
    if not good:
        nothing = spark.createDataFrame([], spark_schema(stored.table).add(DAY, "string", False))
        return stored.replace(nothing, consumed, skipped, keep=True)
    rows = with_day(read(spark, good, table), name)
    touched = [row[DAY] for row in rows.select(DAY).distinct().collect()]
    merged = distinct_rows(rows.unionByName(stored.read(spark, touched)), name)
    # Filters are fetched one by one: small groups.
    options = {"parquet.block.size": str(1 << 20)} if name == "histories" else {}
    return stored.replace(merged, consumed, skipped, keep=True, options=options)


def check(spark: SparkSession, places: list[Place], table: Table) -> dict[str, str]:
    """Names of segments that cannot be believed, and why."""
    slices = min(len(places), max(spark.sparkContext.defaultParallelism, len(places) // SEGMENTS_PER_TASK))
    asked = spark.createDataFrame([(place.uri,) for place in places], "uri string").repartition(slices)
    answers = asked.mapInArrow(partial(_check, table=table.name), CHECKED).where("error IS NOT NULL").collect()
    return {Place.of(row.uri).name: row.error for row in answers}


def _check(batches: Iterator[pa.RecordBatch], table: str) -> Iterator[pa.RecordBatch]:
    """On a worker."""
    for batch in batches:
        uris = batch.column("uri").to_pylist()
        yield pa.RecordBatch.from_pydict(
            {"uri": uris, "error": pa.array([problem(u, table) for u in uris], pa.string())}
        )


def problem(uri: str, table: str) -> str | None:
    """What is wrong with a segment; None: nothing."""
    place = Place.of(uri)
    name = SegmentName.parse(place.name)
    assert name is not None
    try:
        with open_bytes(place.read(), name, place.uri, TABLES[table]) as file:
            file.read()  # every page against its checksum
    except StoreError as error:
        return str(error)
    except (pa.ArrowException, OSError) as error:
        return f"E_STORE_DAMAGED: {uri}: {error}"
    return None


def read(spark: SparkSession, places: list[Place], table: Table) -> DataFrame:
    """Rows of segments, each with where it came from."""
    rows = spark.read.schema(spark_schema(table)).parquet(*(place.uri for place in places))
    origin = (f.col("_metadata.file_name").alias("segment"), f.col("_metadata.row_index").alias("position"))
    return rows.select(*(c.name for c in table.columns), *origin)


def with_day(rows: DataFrame, name: str) -> DataFrame:
    """The day, in UTC, of the time that this table's rows belong to."""
    ms = DAY_OF[name]
    day = f.date_format(f.timestamp_millis(f.col(ms)), "yyyy-MM-dd") if ms else f.lit(WHOLE)
    return rows.withColumn(DAY, f.coalesce(day, f.lit(WHOLE)))


def distinct_rows(rows: DataFrame, name: str) -> DataFrame:
    """Of copies one: the filter with the highest count, else the one that was recorded first."""
    order = [f.col("segment"), f.col("position")]
    if name == "histories":
        order.insert(0, f.col("count").desc())
    ranked = rows.withColumn("_rank", f.row_number().over(Window.partitionBy(*KEYS[name], DAY).orderBy(*order)))
    return ranked.where("_rank = 1").drop("_rank").sortWithinPartitions(DAY, "segment", "position")
