"""Job `optimize`: rewrites small files of tables as large ones, and removes files that are no longer needed.

Rows stay what they are, so what was computed from a table stays up to date. Spark reads and writes the files; a day
whose small files are few is left alone, so repeated runs rewrite a row a few times at most.
"""

from collections import defaultdict
from collections.abc import Iterator

from pyspark.sql import SparkSession

from tidings.model.tables import MESSAGES
from tidings.pipeline.config import OptimizeOptions
from tidings.pipeline.delta_log import DataFile
from tidings.pipeline.merging import grouping, order_of
from tidings.pipeline.run import JobOutcome, JobRun
from tidings.pipeline.schemas import CLEAN, DAY, RESULTS, SUBSCRIPTIONS
from tidings.pipeline.stored_tables import StoredTable, clean_table

MB = 1 << 20


def stored_tables(run: JobRun) -> Iterator[StoredTable]:
    """All tables that an output may have."""
    yield from (clean_table(run.output, name) for name in CLEAN)
    yield run.compacted()
    yield from (run.generated(table) for table in (MESSAGES, SUBSCRIPTIONS))
    yield from (run.result(name) for name in RESULTS)


def small_files(files: list[DataFile], options: OptimizeOptions) -> list[DataFile]:
    """Those that are rewritten: small ones of days that have more of them than is allowed."""
    by_day: dict[str | None, list[DataFile]] = defaultdict(list)
    for one in files:
        if one.size < options.small_mb * MB:
            by_day[one.partition.get(DAY)].append(one)
    return [one for own in by_day.values() if len(own) > options.files_max for one in own]


def optimize(spark: SparkSession, stored: StoredTable, options: OptimizeOptions) -> int:
    """Rewrites small files; returns their number."""
    begun = stored.begin()
    small = small_files(begun.there, options)
    if begun.before is None or not small:
        return 0
    rows = stored.rows_of(spark, small)
    order = [name for name in order_of(stored.table.name) if name in rows.columns]
    if stored.by_day:
        days = len({one.partition[DAY] for one in small})
        parts = max(days, sum(one.size for one in small) // (options.small_mb * MB))
        rows = rows.repartitionByRange(parts, *order).sortWithinPartitions(*order)
    else:
        rows = rows.coalesce(max(1, sum(one.size for one in small) // (options.small_mb * MB)))
    before = begun.before
    group = grouping(stored.table.name, sum(one.size for one in small) / max(1, sum(one.rows for one in small)))
    stored.commit(stored.stage(begun, rows, group), lambda: (before.inputs, before.skipped), small, data_change=False)
    return len(small)


def optimize_job(run: JobRun) -> list[JobOutcome]:
    options, made = run.config.optimize, []
    for stored in stored_tables(run):
        known = stored.manifest()
        if known is None:
            continue
        small = len(small_files(stored.files(), options))
        if small:
            run.progress(f"rewriting small files of {stored.table.name}")
            optimize(run.spark, stored, options)
        removed = stored.vacuum(options.retention_hours)
        if small or removed:
            made.append(JobOutcome(stored.table.name, f"{small} files rewritten, {removed} removed", known.rows))
    return made or [JobOutcome("optimize", "nothing to rewrite or remove")]
