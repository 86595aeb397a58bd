"""One call of the pipeline: its configuration, its Spark session, its tables, and the inputs that options name.

A table's state names what was consumed for it, options included. A job whose inputs are those of the state does
nothing, so running everything again is cheap, and a run that was killed is repeated.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import BinaryType, DataType, IntegralType, LongType

from tidings.errors import UsageError
from tidings.model.message_id import SIZE
from tidings.model.tables import MESSAGES, Table
from tidings.pipeline.config import Config
from tidings.pipeline.delta_log import parquet_files
from tidings.pipeline.schemas import COMPACTED, RESULTS, SUBSCRIPTIONS, spark_schema
from tidings.pipeline.session import open_session
from tidings.pipeline.storage_paths import StoragePath, fingerprint
from tidings.pipeline.stored_tables import StoredTable, clean_table
from tidings.pipeline.table_state import Manifest

IMPROPER = f"null, or not of {SIZE} bytes"


@dataclass(frozen=True, slots=True)
class JobOutcome:
    """The outcome of a job for one table."""

    table: str
    state: str  # written, up to date, or why there is nothing
    rows: int = 0
    skipped: Mapping[str, str] = field(default_factory=dict)


class JobRun:
    """One call of the pipeline: its configuration, and a session as soon as one is needed."""

    def __init__(self, config: Config, progress: Callable[[str], None] | None = None, *, quick: bool = False) -> None:
        self.config = config.needing("output")
        self.output = StoragePath.of(config.output)
        self.progress = progress or (lambda _: None)
        self._quick = quick
        self._stack = ExitStack()
        self._session: SparkSession | None = None

    @property
    def spark(self) -> SparkSession:
        if self._session is None:
            self.progress("starting Spark")
            opened = open_session(self.config.master or None, self.config.conf, quick=self._quick)
            self._session = self._stack.enter_context(opened)
        return self._session

    @property
    def source(self) -> StoragePath:
        return StoragePath.of(self.config.needing("input").input)

    def close(self) -> None:
        self._stack.close()

    def has(self, *names: str) -> bool:
        """Reports whether all these clean tables exist."""
        return all(clean_table(self.output, name).manifest() is not None for name in names)

    def result(self, name: str) -> StoredTable:
        return StoredTable(self.output.under("results"), RESULTS[name])

    def generated(self, table: Table) -> StoredTable:
        return StoredTable(self.output.under("generated"), table)

    def compacted(self) -> StoredTable:
        return StoredTable(self.output.under("clean"), COMPACTED, by_day=True)

    def write(
        self,
        stored: StoredTable,
        inputs: Mapping[str, Any],
        rows: Callable[[], DataFrame],
        skipped: Callable[[], Mapping[str, str]] = dict,
    ) -> JobOutcome:
        """Compute a table unless it was made of the same inputs."""
        before = stored.manifest()
        name = stored.table.name
        if before is not None and before.inputs == inputs:
            return JobOutcome(name, "up to date", before.rows, before.skipped)
        self.progress(f"writing {name}")
        made = stored.replace(rows(), inputs, skipped())
        return JobOutcome(name, "written", made.rows, made.skipped)

    # --- where inputs come from ---

    def input_rows(self, key: str, uri: str, columns: Mapping[str, DataType]) -> tuple[DataFrame, Any]:
        """Rows of a file or folder that an option names; refused if they are not what the job reads."""
        place = StoragePath.of(uri)
        places = parquet_files(place)
        files = [found for one in places for found in fingerprint(one)]
        if not files:
            raise UsageError("E_PIPELINE_INPUT", f"{key}: there is nothing at {place.uri}")
        try:
            rows = self.spark.read.parquet(*(one.pattern for one in places))
        except (PySparkException, Py4JJavaError):
            raise UsageError("E_PIPELINE_INPUT", f"{key}: what is at {place.uri} is not Parquet") from None
        found = {one.name: one.dataType for one in rows.schema.fields}
        for name, kind in columns.items():
            if name not in found:
                raise UsageError(
                    "E_PIPELINE_INPUT", f"{key}: {place.uri} has no column {name}, only {', '.join(found)}"
                )
            alike = found[name] == kind or (isinstance(kind, LongType) and isinstance(found[name], IntegralType))
            if not alike:
                wrong = f"{name} is {found[name].simpleString()}, not {kind.simpleString()}"
                raise UsageError("E_PIPELINE_INPUT", f"{key}: in {place.uri} {wrong}")
        return rows, files

    def id_rows(self) -> tuple[DataFrame, Any]:
        """Ids to be traced, and what they are, for a table's state."""
        if self.config.trace.ids:
            return self.input_rows("trace.ids", self.config.trace.ids, {"id": BinaryType()})
        stored = clean_table(self.output, "messages")
        return stored.read(self.spark), parts_of(stored.need())

    def message_rows(self) -> tuple[DataFrame, Any]:
        wanted = self.config.replay.messages
        if wanted == "generated":
            stored = self.generated(MESSAGES)
            return stored.read(self.spark), parts_of(stored.need())
        if wanted:
            return self.input_rows("replay.messages", wanted, {"id": BinaryType(), "message": BinaryType()})
        stored = clean_table(self.output, "messages")
        return stored.read(self.spark), parts_of(stored.need())

    def subscription_files(self) -> tuple[list[StoragePath], Any]:
        wanted = self.config.replay.subscriptions
        if wanted == "generated":
            stored = self.generated(SUBSCRIPTIONS)
            return stored.paths(), parts_of(stored.need())
        columns = {one.name: one.dataType for one in spark_schema(SUBSCRIPTIONS).fields}
        _, files = self.input_rows("replay.subscriptions", wanted, columns)
        return parquet_files(StoragePath.of(wanted)), files


def parts_of(manifest: Manifest) -> dict[str, str]:
    return {name: part.commit for name, part in manifest.parts.items()}


def left_out(**found: tuple[int, str]) -> dict[str, str]:
    """Describes rows that were left out of a table, for its state."""
    return {name: f"{count} are left out: {reason}" for name, (count, reason) in found.items() if count}


@contextmanager
def open_run(config: Config, progress: Callable[[str], None] | None = None, *, quick: bool = False) -> Iterator[JobRun]:
    run = JobRun(config, progress, quick=quick)
    try:
        yield run
    finally:
        run.close()
