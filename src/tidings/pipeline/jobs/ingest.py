"""Job `ingest`: reads segments into clean tables, checked, without duplicates, partitioned by day.

Workers read each new segment once, as a whole, and check it as a broker would (`segment_rows`); rows of those that pass
are merged into the table (`merging`). One that fails is left out and named in the table's state with the reason; it is
read again when its size or modification time changes, and one that could not be read is tried at each run.

The state also records, by writer, up to which time retention has deleted segments. Segments that were ingested
before they were deleted do not count as missing.

The folder may be that of a running broker, which deletes copies of filters that have grown since, and old segments. A
segment that is deleted before it is read is left out until the next run, which finds the later copy or the mark of
retention.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import date
from functools import partial, reduce
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from tidings.errors import UsageError
from tidings.model.tables import TABLES, Table
from tidings.pipeline.merging import FILTERS, grouping, merge
from tidings.pipeline.run import JobOutcome, JobRun
from tidings.pipeline.schemas import DAY, DAY_OF
from tidings.pipeline.segment_ranges import SegmentRanges
from tidings.pipeline.segment_rows import ERROR, segment_rows
from tidings.pipeline.storage_paths import StoragePath
from tidings.pipeline.stored_tables import WHOLE, clean_table
from tidings.pipeline.table_state import Manifest
from tidings.segments.names import SegmentName
from tidings.segments.retention import marked_ms, marked_writer

LOOKS_MAX = 5  # at a folder where segments come and go
UNREAD = "E_STORE_IO"
GONE = "it was deleted while it was being read"
DAY_MS = 86_400_000
EPOCH = date(1970, 1, 1)
DAYS = range((date.min - EPOCH).days, (date.max - EPOCH).days + 1)  # that have a name of ten characters


@dataclass(frozen=True, slots=True)
class SegmentListing:
    """Segments of one table, and those that are new since its last state."""

    new: list[StoragePath]  # or damaged before, and changed since
    known: list[SegmentName]  # consumed before, and still there
    since: Mapping[str, int]  # by writer: what is older and was never taken in is gone; "": by any
    stamps: Mapping[str, list[int]]  # size and time of change of the new ones
    marked: bool  # `since` has changed

    def __bool__(self) -> bool:
        """Reports whether there is anything to ingest."""
        return bool(self.new) or self.marked


def listing(source: StoragePath, name: str, manifest: Manifest | None) -> SegmentListing:
    inputs: Mapping[str, Any] = {} if manifest is None else manifest.inputs
    skipped = {} if manifest is None else manifest.skipped
    known = SegmentRanges.from_json(inputs.get("segments", {}))
    # What could not be read at all may be right as it is: rights and networks change no file.
    damaged = {
        name: at for name, at in inputs.get("damaged", {}).items() if not skipped.get(name, "").startswith(UNREAD)
    }
    entries = source.under(name).list()
    stamps = {
        place: [size, ns]
        for place, size, ns in entries
        if (parsed := SegmentName.parse(place.name)) is not None
        and parsed not in known
        and damaged.get(place.name) != [size, ns]
    }
    before = inputs.get("since", {})
    since = _since(_marks([place for place, _, _ in entries]), before, inputs.get("newest", {}))
    left = [one for place, _, _ in entries if (one := SegmentName.parse(place.name)) is not None and one in known]
    changed = manifest is not None and since != before
    return SegmentListing(list(stamps), left, since, {place.name: at for place, at in stamps.items()}, changed)


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


def _since(marks: Mapping[str, int], before: Mapping[str, int], newest: Mapping[str, int]) -> dict[str, int]:
    """Leaves out marks about segments that were ingested before they were deleted.

    >>> newest = {"b1": 2000}
    >>> _since({"b1": 1001}, {}, newest), _since({"b1": 2001}, {}, newest), _since({"b1": 1001}, {}, {})
    ({}, {'b1': 2001}, {'b1': 1001})
    """
    since = dict(before)
    for writer, ms in marks.items():
        if ms > newest.get(writer, 0):  # else all that are older than the newest were there when that was taken in
            since[writer] = max(since.get(writer, 0), ms)
    return since


def newest_ms(names: Iterable[SegmentName], before: Mapping[str, int]) -> dict[str, int]:
    """The time of the newest segment of each writer."""
    newest = dict(before)
    for name in names:
        newest[name.writer] = max(newest.get(name.writer, 0), name.created_ms)
    return newest


def ingest(spark: SparkSession, source: StoragePath, output: StoragePath, name: str) -> Manifest | None:
    """Ingest the new segments of one table; None if there are none."""
    stored = clean_table(output, name)
    begun = stored.begin()
    found = listing(source, name, begun.before)
    if not found:
        return None
    with _read(spark, source, TABLES[name], found, begun.before) as (rows, found, bad):
        consumed = partial(_consumed, source, name, begun.before, found, bad)
        if rows is None or len(bad) == len(found.new):
            return stored.commit(begun, consumed)
        merged, replaced = merge(spark, stored, begun, with_day(rows, name), name)
        mean = rows.agg(f.avg(f.length("data"))).first() if name in FILTERS else None
        options = grouping(name, mean[0] or 0) if mean is not None else {}
        return stored.commit(stored.stage(begun, merged, options), consumed, replaced)


Read = tuple[DataFrame | None, SegmentListing, dict[str, str]]


@contextmanager
def _read(
    spark: SparkSession, source: StoragePath, table: Table, found: SegmentListing, before: Manifest | None
) -> Iterator[Read]:
    """Rows of new segments, on the disks of the workers for as long as they are needed; and damaged segments with the
    reason. Segments that are deleted meanwhile are replaced by their successors."""
    read: dict[tuple[str, tuple[int, ...]], str | None] = {}
    frames: list[DataFrame] = []
    with ExitStack() as stack:
        for looks_left in reversed(range(LOOKS_MAX)):
            keys = {place: (place.name, tuple(found.stamps[place.name])) for place in found.new}
            unseen = [place for place in found.new if keys[place] not in read]
            if unseen:
                frame = segment_rows(spark, unseen, table).persist(StorageLevel.DISK_ONLY)
                stack.callback(frame.unpersist)
                frames.append(frame)
                wrong = {row["segment"]: row[ERROR] for row in frame.where(f.col(ERROR).isNotNull()).collect()}
                read |= {keys[place]: wrong.get(place.name) for place in unseen}
            bad = {place.name: why for place, key in keys.items() if (why := read[key]) is not None}
            later = listing(source, table.name, before)
            if not looks_left or set(found.new) <= set(later.new):
                break
            found = later
        there = {place.name for place in later.new}
        rows = [frame.where(f.col(ERROR).isNull()).drop(ERROR) for frame in frames]
        union = reduce(DataFrame.unionByName, rows) if rows else None
        yield union, found, {name: why for name, why in bad.items() if name in there}  # deleted ones: at the end


def _consumed(
    source: StoragePath, name: str, before: Manifest | None, found: SegmentListing, bad: Mapping[str, str]
) -> tuple[dict[str, Any], dict[str, str]]:
    """For the table's state, when all is read: inputs, and the segments that were left out with the reason."""
    now = listing(source, name, before)
    there = {place.name for place in now.new}
    names = [place.name for place in found.new if place.name not in bad and place.name in there]
    gone = dict.fromkeys({place.name for place in found.new} - there, GONE)
    earlier = before.skipped if before is not None else {}
    skipped = {name: why for name, why in earlier.items() if name not in names and why != GONE} | dict(bad) | gone
    damaged = before.inputs.get("damaged", {}) if before is not None else {}
    stamps = {**damaged, **found.stamps}
    consumed = [*found.known, *(one for text in names if (one := SegmentName.parse(text)) is not None)]
    newest = dict(before.inputs.get("newest", {})) if before is not None else {}
    inputs = {
        "segments": SegmentRanges.of(consumed).as_json(),  # what is no longer there need not be known
        "newest": newest_ms(consumed, newest),
        "damaged": {name: stamps[name] for name in sorted({*skipped} & {*stamps} - {*gone})},
        "since": dict(now.since),
    }
    return inputs, skipped


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


def ingest_job(run: JobRun) -> list[JobOutcome]:
    made = []
    if not any(run.source.under(name).exists() for name in TABLES):
        there = "there is no such folder" if not run.source.exists() else f"it has none of {', '.join(TABLES)}"
        raise UsageError("E_PIPELINE_INPUT", f"input: no segments in {run.source.uri}: {there}")
    # Histories last: a subscriber whose attachment was deleted has a mark there, which is read after the attachments.
    for name in sorted(TABLES, key=lambda name: name == "histories"):
        stored = clean_table(run.output, name)
        known = stored.manifest()
        if not listing(run.source, name, known):
            if known is not None:
                made.append(JobOutcome(name, "up to date", known.rows, known.skipped))
            continue
        run.progress(f"ingesting {name}")
        manifest = ingest(run.spark, run.source, run.output, name)
        if manifest is not None:
            made.append(JobOutcome(name, "written", manifest.rows, manifest.skipped))
    return made
