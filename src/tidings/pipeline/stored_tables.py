"""Tables of the pipeline: Delta tables, each with a document that says what a version was made of.

    <root>/<table>/_delta_log/                              which files are the table, version by version
    <root>/<table>/_tidings/00000000800000a3.json           inputs consumed, what was left out, rows by day
    <root>/<table>/_staged/7-5f3a9c21/                      what a run is writing
    <root>/<table>/day=2026-11-15/7-5f3a9c21-part-00000-….parquet

Spark writes files into a folder that no reader looks into; then the driver moves them to where they stay and commits
them (`delta_log`). A commit also names the document of the table's state (`table_state`), so a table and what is said
of it change together or not at all. A run that was killed has changed nothing; the files it left are removed by
`vacuum`, as are those that no version in the time of retention needs.
"""

import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import Any

from deltalake import DeltaTable
from deltalake.transaction import AddAction, RemoveAction
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from tidings.errors import StoreError
from tidings.model.tables import Table, Type
from tidings.pipeline.delta_log import APPLICATION, DataFile, DeltaLog, delta_schema
from tidings.pipeline.schemas import CLEAN, DAY, spark_schema
from tidings.pipeline.storage_paths import StoragePath
from tidings.pipeline.table_state import Manifest, StateFolder, TablePart

STAGED = "_staged"
WHOLE = "all"  # the one partition of a table without days
HOUR_NS = 3_600_000_000_000
SERIAL_BITS = 31  # of a transaction: a number, and chance


Consumed = Callable[[], tuple[Mapping[str, Any], Mapping[str, str]]]


class StoredTable:
    """One table."""

    def __init__(self, root: StoragePath, table: Table, *, by_day: bool = False) -> None:
        self.table, self.by_day = table, by_day
        self.place = root.under(table.name)
        self._states = StateFolder(self.place, table)
        days = [DAY] if by_day else []
        self.log = DeltaLog(self.place, delta_schema(table, days), days, table.name, table.about)

    # --- reading ---

    def manifest(self, version: int | None = None) -> Manifest | None:
        """The table's state, or that of a version; None: nothing was ever written."""
        loaded = self.log.load(version)
        if loaded is None:
            if any(place.name.startswith("manifest-") for place, _, _ in self.place.list()):
                reason = "has the layout of an earlier version; convert it: tidings pipeline migrate --output …"
                raise StoreError("E_STORE_VERSION", f"{self.place.uri} {reason}")
            return None
        transaction = loaded.transaction_version(APPLICATION)
        if transaction is None:
            raise StoreError("E_STORE_DAMAGED", f"{self.place.uri} is a Delta table that the pipeline has not written")
        return self._states.read(transaction)

    def need(self) -> Manifest:
        found = self.manifest()
        if found is None:
            raise StoreError("E_PIPELINE_TABLE", f"there is no table {self.table.name} in {self.place.uri} yet")
        return found

    def files(self, parts: Iterable[str] | None = None, version: int | None = None) -> list[DataFile]:
        """Its files, or those of some days."""
        loaded = self.log.load(version)
        wanted = None if parts is None else set(parts)
        found = [] if loaded is None else self.log.files(loaded)
        return [one for one in found if wanted is None or one.partition.get(DAY, WHOLE) in wanted]

    def paths(self) -> list[StoragePath]:
        """Paths of its files, for readers other than Spark."""
        return [self.place.under(one.path) for one in self.files()]

    def read(self, spark: SparkSession, parts: Iterable[str] | None = None, version: int | None = None) -> DataFrame:
        """Its rows, those of some days, or those of a version; empty if there are none."""
        return self.rows_of(spark, self.files(parts, version))

    def rows_of(self, spark: SparkSession, files: Sequence[DataFile], *, file: bool = False) -> DataFrame:
        """The rows of some of its files; with `file`, columns `_file` and `_row` say where each row is."""
        schema = spark_schema(self.table)
        if self.by_day:
            schema = schema.add(DAY, "string", False)
        if not files:
            return spark.createDataFrame([], schema.add("_file", "string").add("_row", "bigint") if file else schema)
        reader = spark.read.schema(schema).option("basePath", self.place.uri)
        found = reader.parquet(*(self.place.under(one.path).pattern for one in files))
        path = f.substring_index("_metadata.file_path", "/", -2 if self.by_day else -1)
        place = [path.alias("_file"), f.col("_metadata.row_index").alias("_row")] if file else []
        return found.select(*schema.fieldNames(), *place)

    # --- writing ---

    def replace(
        self,
        rows: DataFrame,
        inputs: Mapping[str, Any],
        skipped: Mapping[str, str] | None = None,
        *,
        keep: bool = False,
        options: Mapping[str, str] | None = None,
    ) -> Manifest:
        """Makes these rows the days they belong to; with `keep`, other days stay as they are."""
        staged = self.stage(self.begin(), rows, options)
        days = {_part(one) for one in staged.files}
        removed = [one for one in staged.there if not keep or _part(one) in days]
        return self.commit(staged, lambda: (inputs, skipped or {}), removed)

    def begin(self, *, convert: bool = False) -> "Staged":
        """A change of the table as it is now; another commit before makes it fail. `convert`: of an earlier layout."""
        before, loaded = None if convert else self.manifest(), self.log.load()
        number = 1 if before is None else before.number + 1
        transaction = number << SERIAL_BITS | secrets.randbits(SERIAL_BITS)
        name = f"{number}-{transaction & (1 << SERIAL_BITS) - 1:08x}"
        there = [] if loaded is None else self.log.files(loaded)
        return Staged(loaded, before, there, number, name, transaction, [])

    def stage(self, staged: "Staged", rows: DataFrame, options: Mapping[str, str] | None = None) -> "Staged":
        """Writes files with these rows; they are not yet part of the table."""
        folder = self.place.under(STAGED, staged.name)
        columns = [c.name for c in self.table.columns] + ([DAY] if self.by_day else [])
        plain = {f"parquet.enable.dictionary#{c.name}": "false" for c in self.table.columns if c.type is Type.BYTES}
        plain["mapreduce.fileoutputcommitter.marksuccessfuljobs"] = "false"
        settings = plain | dict(options or {})  # ids, filters and messages do not repeat: a dictionary would be waste
        writer = rows.select(*columns).write.options(**settings)
        (writer.partitionBy(DAY) if self.by_day else writer).parquet(folder.uri)
        files = self.log.take(folder)
        folder.remove_folder()
        return replace(staged, files=files)

    def commit(
        self, staged: "Staged", consumed: Consumed, removed: Sequence[DataFile] = (), *, data_change: bool = True
    ) -> Manifest:
        """Makes staged files part of the table and takes others out; inputs are asked for now, when all is read."""
        added = [self.log.addition(one, data_change=data_change) for one in staged.files]
        parts = dict({} if staged.before is None else staged.before.parts)
        changes = [(_part(one), rows) for one, (_, rows) in zip(staged.files, added, strict=True)]
        changes += [(_part(one), -one.rows) for one in removed]
        for day, rows in changes:
            known = parts.get(day, TablePart("", 0))
            parts[day] = TablePart(staged.name if data_change else known.commit, known.rows + rows)
        gone = {one.path for one in removed}
        days = {_part(one) for one in staged.files} | {_part(one) for one in staged.there if one.path not in gone}
        inputs, skipped = consumed()
        made = Manifest(
            staged.number,
            self.table.name,
            self.table.version,
            {day: part for day, part in parts.items() if day in days},
            dict(inputs),
            dict(skipped),
            {"tidings": version("tidings"), "pyspark": version("pyspark")},
        )
        removes = [one.removal(data_change=data_change) for one in removed]
        self._commit(made, staged, [action for action, _ in added], removes)
        return made

    def restore(self, number: int) -> Manifest:
        """Makes the table what it was at a version of its log, as a new version."""
        then = self.files(version=number)
        lost = [one.path for one in then if not self.place.under(one.path).exists()]
        if lost:
            reason = f"{len(lost)} of its files were removed by vacuum"
            raise StoreError("E_PIPELINE_TABLE", f"{self.place.uri} cannot go back to version {number}: {reason}")
        staged, state = self.begin(), self.manifest(number)
        assert state is not None
        known, wanted = {one.path for one in staged.there}, {one.path for one in then}
        added = [self.log.addition(one, data_change=True)[0] for one in then if one.path not in known]
        removes = [one.removal(data_change=True) for one in staged.there if one.path not in wanted]
        made = replace(state, number=staged.number)
        self._commit(made, staged, added, removes)
        return made

    def vacuum(self, hours: int) -> int:
        """Removes files that no version of the last hours needs, those of killed runs too; returns their number."""
        loaded = self.log.load()
        if loaded is None:
            return 0
        found = loaded.vacuum(hours, dry_run=True, enforce_retention_duration=False, full=True)
        if found:
            loaded.vacuum(hours, dry_run=False, enforce_retention_duration=False, full=True)
        oldest_ns = time.time_ns() - hours * HOUR_NS
        self._states.tidy(loaded.transaction_version(APPLICATION) or 0, oldest_ns)
        for place, _, _ in self.place.under(STAGED).list():
            if max((ns for _, _, ns in place.list(recursive=True)), default=0) < oldest_ns:
                place.remove_folder()
        self.place.remove_empty_folders(oldest_ns)
        return sum(path.endswith(".parquet") for path in found)

    def _commit(
        self, made: Manifest, staged: "Staged", adds: Sequence[AddAction], removes: Sequence[RemoveAction]
    ) -> None:
        self._states.write(staged.transaction, made)
        if not self.log.commit(staged.loaded, adds, removes, staged.transaction):
            raise StoreError("E_STORE_LOCKED", f"another run has written {self.table.name} meanwhile; run again")


@dataclass(frozen=True, slots=True)
class Staged:
    """A change that is not yet committed: the version it is on top of, and the files it has written."""

    loaded: DeltaTable | None
    before: Manifest | None
    there: list[DataFile]  # the table's files
    number: int
    name: str
    transaction: int
    files: list[DataFile]


def clean_table(output: StoragePath, name: str) -> StoredTable:
    return StoredTable(output.under("clean"), CLEAN[name], by_day=True)


def _part(file: DataFile) -> str:
    return file.partition.get(DAY, WHOLE)
