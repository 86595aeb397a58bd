"""Job `check`: data-quality checks of the tables, as a table of their own.

Each check is a condition that rows of a table must fulfil, or a number of rows that may differ from what the table's
state says. A check that fails is a row of `results/quality` with the number of rows it concerns, and makes the command
end with status 1, so that a scheduler stops there.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from tidings.errors import StoreError
from tidings.model.message_id import SIZE
from tidings.pipeline.run import JobOutcome, JobRun
from tidings.pipeline.schemas import CLEAN, DAY, KEYS, RESULTS, spark_schema
from tidings.pipeline.stored_tables import StoredTable, clean_table


@dataclass(frozen=True, slots=True)
class QualityCheck:
    name: str
    wrong: str  # an SQL condition: rows that are wrong


CHECKS: dict[str, tuple[QualityCheck, ...]] = {
    "samples": (QualityCheck("value is a number", "value IS NULL OR isnan(value)"),),
    "runs": (QualityCheck("it ends after it starts", "ended_ms < started_ms"),),
    "histories": (
        QualityCheck("its range is in order", "first_ms > last_ms"),
        QualityCheck("it was opened before it was stored", "opened_ms > stored_ms"),
        QualityCheck("it has bits", "length(data) = 0 AND count > 0"),
    ),
    "attachments": (QualityCheck("the peer has a name", "peer = ''"),),
    "messages": (
        QualityCheck("an id has 16 bytes", f"length(id) != {SIZE}"),
        QualityCheck("the time is the id's", "ms != cast(conv(hex(substring(id, 9, 6)), 16, 10) AS bigint)"),
        QualityCheck("it has its size", "size < 0 OR length(message) = 0"),
    ),
}
ROWS, UNIQUE, READABLE = "rows as its state says", "no copies", "inputs that were readable"


def checked(stored: StoredTable, rows: DataFrame) -> Iterator[tuple[str, str, int, int]]:
    """Table, check, rows that were checked, rows that are wrong."""
    name, state = stored.table.name, stored.need()
    asked = CHECKS.get(name, ())
    wrong: list[Column] = [f.count(f.when(f.expr(one.wrong), 1)) for one in asked]
    found = rows.agg(f.count("*"), *wrong).first()
    assert found is not None
    count, *failed = found
    yield name, ROWS, count, abs(count - state.rows)
    yield name, READABLE, count, len(state.skipped)
    yield from ((name, one.name, count, bad) for one, bad in zip(asked, failed, strict=True))
    keys = (*KEYS[name], DAY) if stored.by_day else KEYS[name]
    copies = rows.groupBy(*keys).count().agg(f.sum(f.col("count") - 1)).first()
    yield name, UNIQUE, count, int((copies and copies[0]) or 0)


def check_job(run: JobRun) -> list[JobOutcome]:
    """Raises StoreError if a check fails, after the table is written."""
    tables = [stored for name in CLEAN if (stored := clean_table(run.output, name)).manifest() is not None]
    rows = [row for stored in tables for row in checked(stored, stored.read(run.spark))]
    result = run.result("quality")
    versions = {stored.table.name: stored.need().number for stored in tables}
    made = result.replace(
        run.spark.createDataFrame([(*row, row[3] == 0) for row in rows], spark_schema(RESULTS["quality"])),
        {"tables": versions},
    )
    failed = [f"{table}: {check} ({wrong} of {count})" for table, check, count, wrong in rows if wrong]
    if failed:
        raise StoreError("E_PIPELINE_QUALITY", f"{len(failed)} checks failed: {'; '.join(failed)}")
    return [JobOutcome("quality", "written", made.rows)]
