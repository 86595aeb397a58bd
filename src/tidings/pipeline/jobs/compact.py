"""Job `compact`: merges neighbouring filters with free room in the clean histories of each day."""

from dataclasses import asdict

import pyarrow as pa
from pyspark.sql import DataFrame

from tidings.pipeline.merging import grouping, order_of
from tidings.pipeline.run import JobOutcome, JobRun, parts_of
from tidings.pipeline.schemas import COMPACTED, DAY, spark_schema
from tidings.pipeline.stored_tables import clean_table
from tidings.segments.arrow_schema import arrow_schema
from tidings.segments.tracking import entry_row, row_entry
from tidings.tracking.recording.compact import compact


def compacted(histories: DataFrame, capacity: int = 0) -> DataFrame:
    """Merges one broker's histories within a day; no filter is merged across midnight, so days stay independent."""
    schema = spark_schema(COMPACTED).add(DAY, "string", False)

    def merge(group: pa.Table) -> pa.Table:  # Spark reads the annotations, which `partial` would hide
        return _compact(group, capacity)

    merged = histories.groupBy(DAY, "broker").applyInArrow(merge, schema)
    return merged.sortWithinPartitions(*order_of(COMPACTED.name))


def _compact(group: pa.Table, capacity: int) -> pa.Table:
    rows = sorted(group.to_pylist(), key=lambda row: (row["segment"], row["position"]))
    lineage = {(row["incarnation"], row["sequence"]): (row["segment"], row["position"], row[DAY]) for row in rows}
    made = []
    for entry in compact(map(row_entry, rows), capacity):
        segment, position, day = lineage[entry.incarnation, entry.sequence]
        made.append(entry_row(rows[0]["broker"], entry) | {"segment": segment, "position": position, DAY: day})
    types = arrow_schema(COMPACTED).remove_metadata().append(pa.field(DAY, pa.string(), False))
    return pa.Table.from_pylist(made, types)


def compact_job(run: JobRun) -> list[JobOutcome]:
    source, target = clean_table(run.output, "histories"), run.compacted()
    wanted, before = parts_of(source.need()), target.manifest()
    done = {} if before is None else dict(before.inputs["histories"])
    options = asdict(run.config.compact)
    stale = [day for day in wanted if done.get(day) != wanted[day]]
    if before is not None and before.inputs["options"] != options:
        stale = list(wanted)
    if not stale:
        return [JobOutcome("compacted", "up to date", 0 if before is None else before.rows)]
    run.progress("writing compacted")
    rows = compacted(source.read(run.spark, stale), run.config.compact.capacity)
    files = source.files(stale)
    groups = grouping(COMPACTED.name, sum(one.size for one in files) / max(1, sum(one.rows for one in files)))
    made = target.replace(rows, {"histories": wanted, "options": options}, keep=True, options=groups)
    return [JobOutcome("compacted", "written", made.rows)]
