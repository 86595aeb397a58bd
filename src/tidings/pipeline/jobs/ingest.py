"""Job `ingest`: reads segments into clean tables, checked, without duplicates, partitioned by day.

Workers read each new segment as a whole and check it as a broker would (checksum, table, version); Spark reads the rows
of those that pass. One that fails is left out and named in the manifest with the reason; it is checked again when its
size or modification time changes, and one that could not be read is tried at each run. Days that new rows belong to are
computed again from their old and new rows; other days are not touched.

The manifest also records, by writer, up to which time retention has deleted segments. Segments that were ingested
before they were deleted do not count as missing.

The folder may be that of a running broker, which deletes copies of filters that have grown since, and old segments. A
segment that is deleted before it is read is left out until the next run, which finds the later copy or the mark of
retention.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as f

from tidings.errors import StoreError, UsageError
from tidings.model.tables import TABLES, Table
from tidings.pipeline.run import JobOutcome, JobRun
from tidings.pipeline.schemas import CLEAN, DAY, DAY_OF, KEYS, spark_schema
from tidings.pipeline.storage import WHOLE, Manifest, StoredTable, clean_table
from tidings.pipeline.storage_paths import StoragePath
from tidings.segments.names import SegmentName
from tidings.segments.reader import open_bytes
from tidings.segments.retention import marked_ms, marked_writer

SEGMENTS_PER_TASK = 64
LOOKS_MAX = 5  # at a folder where segments come and go
UNREAD = "E_STORE_IO"
GONE = "it was deleted while it was being read"
CHECKED = "uri string, error string"
DAY_MS = 86_400_000
EPOCH = date(1970, 1, 1)
DAYS = range((date.min - EPOCH).days, (date.max - EPOCH).days + 1)  # that have a name of ten characters


@dataclass(frozen=True, slots=True)
class SegmentListing:
    """Segments of one table, and those that are new since the manifest."""

    new: list[StoragePath]  # or damaged before, and changed since
    known: list[str]  # names consumed before
    since: Mapping[str, int]  # by writer: what is older and was never taken in is gone; "": by any
    stamps: Mapping[str, list[int]]  # size and time of change of the new ones
    marked: bool  # `since` has changed

    def __bool__(self) -> bool:
        """Reports whether there is anything to ingest."""
        return bool(self.new) or self.marked


def listing(source: StoragePath, stored: StoredTable) -> SegmentListing:
    manifest = stored.manifest()
    inputs: Mapping[str, Any] = {} if manifest is None else manifest.inputs
    skipped = {} if manifest is None else manifest.skipped
    known = inputs.get("segments", [])
    # What could not be read at all may be right as it is: rights and networks change no file.
    damaged = {
        name: at for name, at in inputs.get("damaged", {}).items() if not skipped.get(name, "").startswith(UNREAD)
    }
    entries = source.under(stored.table.name).list()
    stamps = {
        place: [size, ns]
        for place, size, ns in entries
        if SegmentName.parse(place.name) is not None and damaged.get(place.name) != [size, ns]
    }
    seen = set(known)
    new = [place for place in stamps if place.name not in seen]
    before = inputs.get("since", {})
    since = _since(_marks([place for place, _, _ in entries]), before, known if "since" in inputs else [])
    changed = manifest is not None and since != before
    return SegmentListing(new, list(known), since, {place.name: stamps[place] for place in new}, changed)


def _marks(places: list[StoragePath]) -> dict[str, int]:
    """Reads the marks of retention in a folder. A mark without a writer is valid for all writers there."""
    found: dict[str, int] = {}
    writers = {name.writer for place in places if (name := SegmentName.parse(place.name)) is not None}
    for place in places:
        writer = marked_writer(place.name)
        if writer is not None:
            ms = marked_ms(place.read(), place.uri)
            for one in [writer] if writer else writers or [""]:
                found[one] = max(found.get(one, 0), ms)
    return found


def _since(marks: Mapping[str, int], before: Mapping[str, int], known: list[str]) -> dict[str, int]:
    """Leaves out marks about segments that were ingested before they were deleted.

    >>> known = ["0000000001000-b1-00000000-00000000.parquet", "0000000002000-b1-00000001-00000000.parquet"]
    >>> _since({"b1": 1001}, {}, known), _since({"b1": 2001}, {}, known), _since({"b1": 1001}, {}, [])
    ({}, {'b1': 2001}, {'b1': 1001})
    """
    newest: dict[str, int] = {}
    for text in known:
        if (name := SegmentName.parse(text)) is not None:
            newest[name.writer] = max(newest.get(name.writer, 0), name.created_ms)
    since = dict(before)
    for writer, ms in marks.items():
        if ms > newest.get(writer, 0):  # else all that are older than the newest were there when that was taken in
            since[writer] = max(since.get(writer, 0), ms)
    return since


def ingest(spark: SparkSession, source: StoragePath, output: StoragePath, name: str) -> Manifest | None:
    """Ingest the new segments of one table; None if there are none."""
    stored, table = clean_table(output, name), TABLES[name]
    found = listing(source, stored)
    if not found:
        return None
    found, bad = _checked(spark, source, stored, table, found)
    good = [place for place in found.new if place.name not in bad]
    consumed = partial(_consumed, source, stored, found, bad)
    if not good:
        nothing = spark.createDataFrame([], spark_schema(stored.table).add(DAY, "string", False))
        return stored.replace_by(nothing, consumed, keep=True)
    rows = with_day(read(spark, good, table), name)
    touched = [row[DAY] for row in rows.select(DAY).distinct().collect()]
    merged = distinct_rows(rows.unionByName(stored.read(spark, touched)), name)
    # Filters are fetched one by one: small groups.
    options = {"parquet.block.size": str(1 << 20)} if name == "histories" else {}
    return stored.replace_by(merged, consumed, keep=True, options=options)


def _checked(
    spark: SparkSession, source: StoragePath, stored: StoredTable, table: Table, found: SegmentListing
) -> tuple[SegmentListing, dict[str, str]]:
    """New segments and damaged ones; segments that are deleted meanwhile are replaced by their successors."""
    checked: dict[tuple[str, tuple[int, ...]], str | None] = {}
    for looks_left in reversed(range(LOOKS_MAX)):
        keys = {place: (place.name, tuple(found.stamps[place.name])) for place in found.new}
        unseen = [place for place in found.new if keys[place] not in checked]
        wrong = check(spark, unseen, table) if unseen else {}
        checked |= {keys[place]: wrong.get(place.name) for place in unseen}
        bad = {place.name: why for place, key in keys.items() if (why := checked[key]) is not None}
        later = listing(source, stored)
        if not looks_left or set(found.new) <= set(later.new):
            break
        found = later
    there = {place.name for place in later.new}
    return found, {name: why for name, why in bad.items() if name in there}  # deleted ones are reported at the end


def _consumed(
    source: StoragePath, stored: StoredTable, found: SegmentListing, bad: Mapping[str, str]
) -> tuple[dict[str, Any], dict[str, str]]:
    """For the manifest, when all is read: inputs, and the segments that were left out with the reason."""
    now = listing(source, stored)
    there = {place.name for place in now.new}
    names = [place.name for place in found.new if place.name not in bad and place.name in there]
    gone = dict.fromkeys({place.name for place in found.new} - there, GONE)
    before = stored.manifest()
    earlier = before.skipped if before is not None else {}
    skipped = {name: why for name, why in earlier.items() if name not in names and why != GONE} | dict(bad) | gone
    damaged = before.inputs.get("damaged", {}) if before is not None else {}
    stamps = {**damaged, **found.stamps}
    inputs = {
        "segments": sorted([*found.known, *names]),
        "damaged": {name: stamps[name] for name in sorted({*skipped} & {*stamps} - {*gone})},
        "since": dict(now.since),
    }
    return inputs, skipped


def check(spark: SparkSession, places: list[StoragePath], table: Table) -> dict[str, str]:
    """Names of damaged segments, with the reason."""
    slices = min(len(places), max(spark.sparkContext.defaultParallelism, len(places) // SEGMENTS_PER_TASK))
    asked = spark.createDataFrame([(place.uri,) for place in places], "uri string").repartition(slices)
    answers = asked.mapInArrow(partial(_check, table=table.name), CHECKED).where("error IS NOT NULL").collect()
    return {StoragePath.of(row.uri).name: row.error for row in answers}


def _check(batches: Iterator[pa.RecordBatch], table: str) -> Iterator[pa.RecordBatch]:
    """Runs on a worker."""
    for batch in batches:
        uris = batch.column("uri").to_pylist()
        yield pa.RecordBatch.from_pydict(
            {"uri": uris, "error": pa.array([problem(u, table) for u in uris], pa.string())}
        )


def problem(uri: str, table: str) -> str | None:
    """The reason why a segment cannot be used; None if it can."""
    place = StoragePath.of(uri)
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


def read(spark: SparkSession, places: list[StoragePath], table: Table) -> DataFrame:
    """Rows of segments, each with its segment and position; a segment that is deleted meanwhile may give none."""
    if not places:
        return spark.createDataFrame([], spark_schema(CLEAN[table.name]))
    reader = spark.read.schema(spark_schema(table)).option("ignoreMissingFiles", "true")
    try:
        rows = reader.parquet(*(place.pattern for place in places))
    except AnalysisException:
        left = [place for place in places if place.exists()]
        if len(left) == len(places):
            raise
        return read(spark, left, table)
    origin = (f.col("_metadata.file_name").alias("segment"), f.col("_metadata.row_index").alias("position"))
    return rows.select(*(c.name for c in table.columns), *origin)


def with_day(rows: DataFrame, name: str) -> DataFrame:
    """The day of the time that this table's rows belong to: in UTC, whatever the session's time zone is.

    Rows whose time is in no year from 1 to 9999 are kept, without a day: a filter that were left out would be missed.
    """
    if not DAY_OF[name]:
        return rows.withColumn(DAY, f.lit(WHOLE))
    ms = f.col(DAY_OF[name])
    bounded = f.greatest(f.least(ms, f.lit(DAYS.stop * DAY_MS - 1)), f.lit(DAYS.start * DAY_MS))  # never overflows
    number = ((bounded - f.pmod(bounded, f.lit(DAY_MS))) / DAY_MS).cast("int")
    day = f.date_add(f.lit(EPOCH), number).cast("string")
    return rows.withColumn(DAY, f.when(ms == bounded, day).otherwise(WHOLE))


def distinct_rows(rows: DataFrame, name: str) -> DataFrame:
    """Removes duplicates: keeps the filter with the highest count, of other rows the one that was recorded first."""
    order = [f.col("segment"), f.col("position")]
    if name == "histories":
        order.insert(0, f.col("count").desc())
    ranked = rows.withColumn("_rank", f.row_number().over(Window.partitionBy(*KEYS[name], DAY).orderBy(*order)))
    return ranked.where("_rank = 1").drop("_rank").sortWithinPartitions(DAY, "segment", "position")


def ingest_job(run: JobRun) -> list[JobOutcome]:
    made = []
    if not any(run.source.under(name).exists() for name in TABLES):
        there = "there is no such folder" if not run.source.exists() else f"it has none of {', '.join(TABLES)}"
        raise UsageError("E_PIPELINE_INPUT", f"input: no segments in {run.source.uri}: {there}")
    # Histories last: a subscriber whose attachment was deleted has a mark there, which is read after the attachments.
    for name in sorted(TABLES, key=lambda name: name == "histories"):
        stored = clean_table(run.output, name)
        if not listing(run.source, stored):
            known = stored.manifest()
            if known is not None:
                made.append(JobOutcome(name, "up to date", known.rows, known.skipped))
            continue
        run.progress(f"ingesting {name}")
        manifest = ingest(run.spark, run.source, run.output, name)
        if manifest is not None:
            made.append(JobOutcome(name, "written", manifest.rows, manifest.skipped))
    return made
