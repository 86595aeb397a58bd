"""Tables in a folder: Parquet files, and a manifest that says which of them are the table.

    <root>/<table>/manifest-00000007.json           the highest number is the table as it is
    <root>/<table>/data/7-5f3a9c/part=2026-11-15/  files of one run, by partition

A run writes its partitions beside those that are there. The new manifest names the new folders for exactly the
partitions that were computed and the old ones for all others, and appears under its name as a whole or not at all. So a
run that was killed has changed nothing, and one that is repeated replaces what it computed before. What no manifest
names any more is removed by the next run, except what the last one replaced, which may still be read.

Where a cluster has Delta or Iceberg, another class with these methods takes the place of `StoredTable`.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from typing import Any
from uuid import uuid4

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from tidings.errors import StoreError
from tidings.model.tables import Table, Type
from tidings.pipeline.schemas import CLEAN, DAY, spark_schema
from tidings.pipeline.storage_paths import StoragePath

PART = "part"
WHOLE = "all"  # the one partition of a table without days


@dataclass(frozen=True, slots=True)
class TablePart:
    folder: str  # below data/
    rows: int


@dataclass(frozen=True, slots=True)
class Manifest:
    number: int
    table: str
    version: int
    parts: Mapping[str, TablePart]
    inputs: Mapping[str, Any]  # what was consumed: two runs with equal inputs give equal tables
    skipped: Mapping[str, str] = field(default_factory=dict)  # inputs that were left out, and why
    software: Mapping[str, str] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        return sum(part.rows for part in self.parts.values())


class StoredTable:
    """One table."""

    def __init__(self, root: StoragePath, table: Table, *, by_day: bool = False) -> None:
        self.table = table
        self._by_day = by_day
        self._place = root.under(table.name)

    @property
    def data(self) -> StoragePath:
        return self._place.under("data")

    def manifest(self) -> Manifest | None:
        """The table as it is; None: nothing was ever written."""
        numbers = self._numbers()
        return None if not numbers else self._read(numbers[-1])

    def need(self) -> Manifest:
        found = self.manifest()
        if found is None:
            raise StoreError("E_PIPELINE_TABLE", f"there is no table {self.table.name} in {self._place.uri} yet")
        return found

    def read(self, spark: SparkSession, parts: list[str] | None = None) -> DataFrame:
        """Its rows, or those of some partitions; empty if there are none."""
        manifest = self.manifest()
        known = {} if manifest is None else manifest.parts
        schema = spark_schema(self.table)
        if self._by_day:
            schema = schema.add(DAY, "string", False)
        wanted = [known[part].folder for part in sorted(known) if parts is None or part in parts]
        if not wanted:
            return spark.createDataFrame([], schema)
        return spark.read.schema(schema).parquet(*(self.data.under(one).pattern for one in wanted))

    def folders(self, parts: list[str] | None = None) -> list[StoragePath]:
        """The folders of its files, for readers other than Spark."""
        known = self.need().parts
        return [self.data.under(known[part].folder) for part in sorted(known) if parts is None or part in parts]

    def replace(
        self,
        rows: DataFrame,
        inputs: Mapping[str, Any],
        skipped: Mapping[str, str] | None = None,
        *,
        keep: bool = False,
        options: Mapping[str, str] | None = None,
    ) -> Manifest:
        """Make these rows the partitions they belong to; with `keep`, other partitions stay as they are."""
        return self.replace_by(rows, lambda: (inputs, skipped or {}), keep=keep, options=options)

    def replace_by(
        self,
        rows: DataFrame,
        consumed: Callable[[], tuple[Mapping[str, Any], Mapping[str, str]]],
        *,
        keep: bool = False,
        options: Mapping[str, str] | None = None,
    ) -> Manifest:
        """The same; inputs, and what was left out, are asked for when all rows have been read."""
        before = self.manifest()
        number = 1 if before is None else before.number + 1
        attempt = f"{number}-{uuid4().hex[:8]}"
        columns = [c.name for c in self.table.columns] + ([DAY] if self._by_day else [])
        chosen = rows.select(*columns)
        plain = {f"parquet.enable.dictionary#{c.name}": "false" for c in self.table.columns if c.type is Type.BYTES}
        settings = plain | dict(options or {})  # ids, filters and messages do not repeat: a dictionary would be waste
        target = self.data.under(attempt)
        if self._by_day:
            chosen.withColumn(PART, f.col(DAY)).write.partitionBy(PART).options(**settings).parquet(target.uri)
        else:  # rows that all go to one place need not be sorted by it
            chosen.write.options(**settings).parquet(target.under(f"{PART}={WHOLE}").uri)
        parts = {place.name.partition("=")[2]: _part(place, attempt) for place, _, _ in target.list()}
        kept = dict(before.parts) if keep and before is not None else {}
        inputs, skipped = consumed()
        software = {"tidings": version("tidings"), "pyspark": version("pyspark")}
        made = Manifest(number, self.table.name, self.table.version, kept | parts, inputs, dict(skipped), software)
        self._commit(made, attempt)
        return made

    def _commit(self, made: Manifest, attempt: str) -> None:
        if not self._place.under(_name(made.number)).create(asdict(made)):
            self.data.under(attempt).remove_folder()
            raise StoreError("E_STORE_LOCKED", f"another run has written {self.table.name} meanwhile; run again")
        self.tidy()

    def tidy(self) -> None:
        """Remove what neither the table nor the one before it needs."""
        numbers = self._numbers()
        for number in numbers[:-2]:
            self._place.under(_name(number)).remove_file()
        kept = {part.folder.split("/")[0] for number in numbers[-2:] for part in self._read(number).parts.values()}
        for place, _, _ in self.data.list():
            if place.name not in kept:
                place.remove_folder()

    def _numbers(self) -> list[int]:
        names = [place.name for place, _, _ in self._place.list()]
        return sorted(int(name[9:17]) for name in names if name.startswith("manifest-") and name.endswith(".json"))

    def _read(self, number: int) -> Manifest:
        place = self._place.under(_name(number))
        try:
            found = json.loads(place.read())
            parts = {name: TablePart(**part) for name, part in found.pop("parts").items()}
            made = Manifest(parts=parts, **found)
        except (ValueError, TypeError, KeyError) as error:
            raise StoreError("E_STORE_DAMAGED", f"{place.uri} is no manifest: {error}") from None
        if (made.table, made.version) != (self.table.name, self.table.version):
            wanted = f"{self.table.name} {self.table.version}"
            raise StoreError("E_STORE_VERSION", f"{place.uri} is of {made.table} {made.version}; this reads {wanted}")
        return made


def clean_table(output: StoragePath, name: str) -> StoredTable:
    return StoredTable(output.under("clean"), CLEAN[name], by_day=True)


def _name(number: int) -> str:
    return f"manifest-{number:08}.json"


def _part(folder: StoragePath, attempt: str) -> TablePart:
    rows = 0
    for place, _, _ in folder.list():
        system, path = place.open()
        rows += pq.read_metadata(path, filesystem=system).num_rows
    return TablePart(f"{attempt}/{folder.name}", rows)
