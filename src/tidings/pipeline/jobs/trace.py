"""Job `trace`: maps ids to the number of their path; each path is stored once, in a table of its own.

Spark puts ids and the metadata of the filters that concern them together in buckets of time (`time_buckets`). A worker
traces a bucket at a time (`bulk`), reads the bits of filters as it asks them (`filter_cache`), and writes a path's
report beside the first id of the bucket that took it, from where the table `paths` collects them.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from tidings.errors import UsageError
from tidings.model.message_id import SIZE
from tidings.pipeline.bulk import Tracer
from tidings.pipeline.filter_cache import ABOUT, FILE, ROW, FilterCache
from tidings.pipeline.run import IMPROPER, JobOutcome, JobRun, left_out, parts_of
from tidings.pipeline.schemas import RESULTS, spark_schema
from tidings.pipeline.session import parallelism
from tidings.pipeline.storage_paths import StoragePath
from tidings.pipeline.stored_tables import StoredTable, clean_table
from tidings.pipeline.time_buckets import BUCKET, IdSummary, TimeBuckets, plan, summary
from tidings.segments.names import SegmentName
from tidings.tracking.ids import IdArray
from tidings.tracking.query.path import Path
from tidings.tracking.query.path_json import to_dict
from tidings.tracking.recording.attachments import Attachment, AttachmentKind
from tidings.tracking.recording.recorder import TIME_MAX_MS, TrackingSettings

WRITER = r"^\d+-([^-]*)-"  # in a segment's name


@dataclass(frozen=True, slots=True)
class TraceRecords:
    """A worker's input for tracing; the same for all tasks of a job, and without filters."""

    histories: str  # the table's folder
    stored: tuple[tuple[int, int, int], ...]  # broker, incarnation, and when it last stored a filter
    attachments: tuple[tuple[int, tuple[Attachment, ...]], ...]  # by broker, in the order of their making
    writers: tuple[tuple[int, str], ...]  # brokers, and who wrote about their attachments
    missing_ms: tuple[tuple[str, int], ...]  # writer, and up to when segments of it are gone or damaged
    settings: TrackingSettings
    filters_bytes_max: int


def traces(
    ids: DataFrame, known: IdSummary, histories: DataFrame, records: TraceRecords, buckets: TimeBuckets
) -> DataFrame:
    """Columns of the table `traces`; what is no id of 16 bytes is left out. `histories` has the columns `ABOUT`, `FILE`
    and `ROW`."""

    def trace(
        asked: pa.Table, filters: pa.Table
    ) -> pa.Table:  # Spark reads the annotations, which `partial` would hide
        return trace_bucket(asked, filters, records)

    left = buckets.of_ids(ids).groupBy(BUCKET)
    right = buckets.of_filters(histories.select(*ABOUT, FILE, ROW), known).groupBy(BUCKET)
    return left.cogroup(right).applyInArrow(trace, spark_schema(RESULTS["traces"]))


def paths(traced: DataFrame) -> DataFrame:
    """The table `paths` of a table `traces`."""
    first = traced.where("report IS NOT NULL").groupBy("path").agg(f.min("report").alias("report"))
    return first.mapInArrow(_describe, spark_schema(RESULTS["paths"]))


def attachments_of(rows: list[Any]) -> tuple[tuple[int, tuple[Attachment, ...]], ...]:
    """Rows of the clean table, by broker; in the order in which they were recorded."""
    found: dict[int, list[Attachment]] = {}
    for row in sorted(rows, key=lambda row: (row.segment, row.position)):
        change = Attachment(AttachmentKind(row.kind), row.peer, row.ms, row.attached, row.incarnation)
        found.setdefault(row.broker, []).append(change)
    return tuple((broker, tuple(_once(found[broker]))) for broker in sorted(found))


def _once(changes: list[Attachment]) -> list[Attachment]:
    """Brokers write small segments of attachments again as one, and an ingest before and one after has both.

    Then the changes of each process are put together, its beginning and its end once: a second beginning would look
    like the end of one that was killed. Repeated attachments within one life do no harm.
    """
    eras = [change for change in changes if change.kind is AttachmentKind.ERA]
    if len(set(eras)) == len(eras):
        return changes
    lives: dict[int, list[Attachment]] = {}
    for change in changes:
        lives.setdefault(change.incarnation, []).append(change)
    made: list[Attachment] = []
    for life in lives.values():
        ends = dict.fromkeys(change for change in life if change.kind is AttachmentKind.ERA)
        made += [change for change in ends if change.attached]
        made += [change for change in life if change.kind is not AttachmentKind.ERA]
        made += [change for change in ends if not change.attached]
    return made


def writers_of(rows: list[Any]) -> tuple[tuple[int, str], ...]:
    """The writers of each broker's attachments."""
    names = {(row.broker, row.segment) for row in rows}
    return tuple(sorted({(broker, name.writer) for broker, text in names if (name := SegmentName.parse(text))}))


def missing_ms(
    since: Mapping[str, int], histories: Iterable[str], attachments: Iterable[str] = (), rows: Iterable[Any] = ()
) -> tuple[tuple[str, int], ...]:
    """The time up to which records of each writer are missing: deleted by retention, or in segments that were left out.

    A peer that attached in a segment that was left out may have stayed until the broker's process ended: attachments
    are complete again from the next start or end of a process in `rows` of the segments that were read.
    """
    missing = dict(since)
    eras = sorted((row.segment, row.ms) for row in rows if row.kind == AttachmentKind.ERA.value)
    written = [(name, ms) for text, ms in eras if (name := SegmentName.parse(text)) is not None]
    ends = [(name, name.created_ms + 1) for name in _names(histories)]
    for lost in _names(attachments):
        own = (ms for name, ms in written if name.writer == lost.writer and name > lost)
        ends.append((lost, max(lost.created_ms + 1, next(own, TIME_MAX_MS))))
    for name, ms in ends:
        missing[name.writer] = max(missing.get(name.writer, 0), ms)
    return tuple(sorted(missing.items()))


def _names(texts: Iterable[str]) -> list[SegmentName]:
    return [name for text in texts if (name := SegmentName.parse(text)) is not None]


def tracer_of(filters: pa.Table, records: TraceRecords) -> tuple[Tracer, FilterCache]:
    stored: dict[int, dict[int, int]] = {}
    for broker, incarnation, ms in records.stored:
        stored.setdefault(broker, {})[incarnation] = ms
    cache = FilterCache(StoragePath(records.histories), filters.to_pylist(), stored, records.filters_bytes_max)
    missing = dict(records.missing_ms)
    known = {writer for _, writer in records.writers}
    strangers = max((ms for writer, ms in missing.items() if writer not in known), default=0)  # anybody's
    changes = {broker: list(own) for broker, own in records.attachments}
    since = dict.fromkeys(changes, strangers)
    for broker, writer in records.writers:
        if broker in since:
            since[broker] = max(since[broker], missing.get(writer, 0))
    return Tracer(cache, changes, records.settings, since), cache


def trace_bucket(asked: pa.Table, filters: pa.Table, records: TraceRecords) -> pa.Table:
    """Runs on a worker: of each id the hash of its path, and beside one id of each path the report."""
    names = [column.name for column in RESULTS["traces"].columns]
    if not len(asked):
        return pa.table([pa.array([], pa.binary()), pa.array([], pa.int64()), pa.array([], pa.string())], names)
    ids = _id_array(asked["id"])
    tracer, _ = tracer_of(filters, records)
    numbers, found = tracer.trace(ids)
    texts = [json.dumps(document(path), sort_keys=True) for path in found]
    hashes = np.array([_hash(text) for text in texts], np.int64)
    firsts = np.full(len(texts), -1, np.int64)
    firsts[numbers[::-1]] = np.arange(len(ids) - 1, -1, -1)
    beside = dict(zip(firsts.tolist(), texts, strict=True))
    seen, reports = set[int](), list[str | None]([None]) * len(ids)
    for place in sorted(beside):
        number = int(hashes[numbers[place]])
        if number not in seen:  # paths of several origins may have one report
            seen.add(number)
            reports[place] = beside[place]
    return pa.table([binary(ids), pa.array(hashes[numbers]), pa.array(reports, pa.string())], names)


def _id_array(column: pa.ChunkedArray) -> IdArray:
    fixed = column.combine_chunks().cast(pa.binary(SIZE))
    flat = np.frombuffer(fixed.buffers()[1], np.uint8)[fixed.offset * SIZE : (fixed.offset + len(fixed)) * SIZE]
    return flat.reshape(-1, SIZE)


def binary(ids: np.ndarray[Any, np.dtype[np.uint8]]) -> pa.Array:
    """Ids as a column, without a copy of each."""
    offsets = np.arange(len(ids) + 1, dtype=np.int32) * SIZE
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(ids))]
    return pa.Array.from_buffers(pa.binary(), len(ids), buffers)


def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little", signed=True)


def document(path: Path) -> dict[str, Any]:
    """The JSON report of a live trace, without the fields that are the message's own: its id, and when it passed."""
    found: dict[str, Any] = {
        key: value for key, value in to_dict(path).items() if key not in ("message", "publisher", "ms")
    }
    for hop in (*found["hops"], *found["false_positives"]):
        for one in (hop, *hop["subscribers"]):
            one.pop("between_ms", None)
    return found


def _describe(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows of `paths` from numbers and reports."""
    names = [column.name for column in RESULTS["paths"].columns]
    for batch in batches:
        rows = [_path_row(*row.values()) for row in batch.select(["path", "report"]).to_pylist()]
        arrays = [pa.array(list(column)) for column in zip(*rows, strict=True)]
        if rows:
            yield pa.RecordBatch.from_arrays(arrays, names)


def _path_row(number: int, report: str) -> tuple[Any, ...]:
    found = json.loads(report)
    hops = found["hops"]
    wrong = [hop["probability"] for hop in hops] + [one["probability"] for hop in hops for one in hop["subscribers"]]
    subscribers = sum(len(hop["subscribers"]) for hop in hops)
    return (
        number,
        found["origin"],
        found["confirmed"],
        found["complete"],
        len(hops),
        subscribers,
        max(wrong, default=0.0),
        report,
    )


def trace_job(run: JobRun) -> list[JobOutcome]:
    options = run.config.trace
    histories = _compacted(run) if options.compacted else clean_table(run.output, "histories")
    attachments = clean_table(run.output, "attachments")
    ids, about = run.id_rows()
    inputs = {
        "ids": about,
        "histories": parts_of(histories.need()),
        "attachments": parts_of(attachments.need()),
        "options": asdict(options) | {"ids": ""},
    }
    recorded, attached = clean_table(run.output, "histories").need(), attachments.need()
    since = recorded.inputs.get("since", {})
    inputs["missing"] = {"since": since, "segments": sorted({*recorded.skipped, *attached.skipped})}

    asked: list[IdSummary] = []

    def rows() -> DataFrame:
        filters = located(histories, run.spark)
        changes = recorded_changes(attachments.read(run.spark))
        stored, writers = last_stored(filters)
        records = TraceRecords(
            histories.place.uri,
            stored,
            attachments_of(changes),
            tuple(sorted({*writers, *writers_of(changes)})),
            missing_ms(since, recorded.skipped, attached.skipped, changes),
            TrackingSettings(
                persist_ms=options.persist_ms,
                skew_between_brokers_ms=options.skew_between_brokers_ms,
                forwards=options.forwards,
            ),
            options.filters_mb_max << 20,
        )
        asked.append(summary(ids))
        buckets = plan(ids, asked[0], parallelism(run.spark))
        return traces(ids, asked[0], filters, records, buckets)

    def skipped() -> dict[str, str]:
        return {**recorded.skipped, **attached.skipped, **left_out(ids=(asked[0].improper, IMPROPER))}

    traced = run.write(run.result("traces"), inputs, rows, skipped)
    stored = run.result("traces")
    return [
        traced,
        run.write(run.result("paths"), parts_of(stored.need()), lambda: paths(stored.read(run.spark))),
    ]


def located(histories: StoredTable, spark: SparkSession) -> DataFrame:
    """Metadata of all filters of a table, and where they are."""
    return histories.rows_of(spark, histories.files(), file=True).select(*ABOUT, FILE, ROW)


def recorded_changes(attachments: DataFrame) -> list[Any]:
    """Attachments; of publishers, which come and go by the million, one for each broker and writer: that some were."""
    writer = f.regexp_extract("segment", WRITER, 1)
    publishers = f.col("kind") == AttachmentKind.PUBLISHER.value
    some = attachments.where(publishers).withColumn("_writer", writer).dropDuplicates(["broker", "_writer"])
    return attachments.where(~publishers).unionByName(some.drop("_writer")).collect()


def last_stored(filters: DataFrame) -> tuple[tuple[tuple[int, int, int], ...], set[tuple[int, str]]]:
    """Times at which processes of brokers last stored a filter, and the brokers' writers."""
    writer = f.regexp_extract("segment", WRITER, 1).alias("writer")
    found = filters.groupBy("broker", "incarnation", writer).agg(f.max("stored_ms").alias("ms")).collect()
    last: dict[tuple[int, int], int] = {}
    for row in found:
        key = (row["broker"], row["incarnation"])
        last[key] = max(last.get(key, 0), row["ms"])
    return tuple(sorted((*key, ms) for key, ms in last.items())), {(row["broker"], row["writer"]) for row in found}


def _compacted(run: JobRun) -> StoredTable:
    """The compacted table; refused if older than the histories: a missing filter would give a certain, wrong "no"."""
    stored, wanted = run.compacted(), parts_of(clean_table(run.output, "histories").need())
    if stored.need().inputs["histories"] != wanted:
        reason = "histories were ingested since the filters were merged; run compact first (tidings pipeline compact)"
        raise UsageError("E_PIPELINE_INPUT", f"trace.compacted: {reason}")
    return stored
