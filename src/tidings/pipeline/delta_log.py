"""Delta tables as a driver commits them: files that Spark has written become part of a table, and others leave it.

The log is read and written by `deltalake` (delta-rs), so a session needs no jar, and a commit is atomic on a disk and
in an object store: two commits of one version cannot both succeed. A commit is tried once. Its transaction identifier,
which the log keeps, names the document of the table's state (`table_state`).
"""

import json
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Field, Schema
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.schema import ArrayType, PrimitiveType
from deltalake.transaction import AddAction, RemoveAction, Transaction, create_table_with_add_actions

from tidings.errors import StoreError, UsageError
from tidings.model.tables import Table, Type
from tidings.pipeline.storage_paths import StoragePath

APPLICATION = "tidings"  # of the transactions in the log
MOVES = 16  # at a time: in an object store each is a copy
TEXT_MAX = 64  # longer ones are not among the statistics
_TYPES: dict[Type, PrimitiveType | ArrayType] = {
    Type.INT: PrimitiveType("long"),
    Type.FLOAT: PrimitiveType("double"),
    Type.FLAG: PrimitiveType("boolean"),
    Type.TEXT: PrimitiveType("string"),
    Type.BYTES: PrimitiveType("binary"),
    Type.INTS: ArrayType(PrimitiveType("long"), contains_null=False),
}


@dataclass(frozen=True, slots=True)
class DataFile:
    """A Parquet file of a table."""

    path: str  # below the table's folder
    size: int
    rows: int
    partition: Mapping[str, str]

    def removal(self, *, data_change: bool) -> RemoveAction:
        return RemoveAction(self.path, data_change, _now_ms(), self.size, dict(self.partition))


class DeltaLog:
    """The log of one table."""

    def __init__(
        self, place: StoragePath, schema: Schema, partition_by: Sequence[str] = (), name: str = "", about: str = ""
    ) -> None:
        if "%" in place.uri:
            raise UsageError(
                "E_PIPELINE_PLACE", f"{place.uri}: the path of a table must not contain '%'; choose another"
            )
        self._place, self._schema, self._partition_by = place, schema, list(partition_by)
        self._name, self._about = name, about

    def load(self, version: int | None = None) -> DeltaTable | None:
        """The table as it is, or as it was at a version; None if there is none."""
        uri = self._place.url
        try:
            return DeltaTable(uri, version) if DeltaTable.is_deltatable(uri) else None
        except (DeltaError, OSError) as error:
            what = "" if version is None else f", version {version}"
            raise StoreError("E_STORE_DAMAGED", f"{self._place.uri}{what} cannot be read: {error!s:.200}") from None

    def files(self, table: DeltaTable) -> list[DataFile]:
        """Files of a table, sorted by path."""
        rows = pa.table(table.get_add_actions(flatten=True)).to_pylist()
        keys = self._partition_by
        found = [
            DataFile(
                row["path"], row["size_bytes"], row["num_records"] or 0, {key: row[f"partition.{key}"] for key in keys}
            )
            for row in rows
        ]
        return sorted(found, key=lambda one: one.path)

    def take(self, folder: StoragePath) -> list[DataFile]:
        """Moves files that Spark has written into a folder to where they stay; they are not yet part of the table."""

        def move(place: StoragePath, size: int) -> DataFile:
            below = place.uri[len(folder.uri) + 1 :].rpartition("/")[0]
            path = "/".join(part for part in (below, f"{folder.name}-{place.name}") if part)
            place.move(self._place.under(path))
            pairs = [part.partition("=") for part in below.split("/") if part]
            return DataFile(path, size, 0, {key: value for key, _, value in pairs})

        found = [(place, size) for place, size, _ in folder.list(recursive=True) if place.name.endswith(".parquet")]
        with ThreadPoolExecutor(MOVES) as pool:
            return list(pool.map(move, *zip(*found, strict=True))) if found else []

    def addition(self, file: DataFile, *, data_change: bool) -> tuple[AddAction, int]:
        """The action that adds a file, and the number of its rows, from its footer."""
        system, path = self._place.under(file.path).open()
        metadata = pq.read_metadata(path, filesystem=system)
        stats = json.dumps(statistics(metadata), allow_nan=False)
        action = AddAction(file.path, file.size, file.partition, _now_ms(), data_change, stats)
        return action, metadata.num_rows

    def commit(
        self,
        table: DeltaTable | None,
        adds: Sequence[AddAction],
        removes: Sequence[RemoveAction],
        transaction: int,
        application: str = APPLICATION,
    ) -> bool:
        """Commits on top of the version that was read; False if another commit came first."""
        properties = CommitProperties(app_transactions=[Transaction(application, transaction)], max_commit_retries=0)
        try:
            if table is None:
                create_table_with_add_actions(
                    self._place.url,
                    self._schema,
                    list(adds),
                    "error",
                    self._partition_by,
                    self._name or None,
                    self._about or None,
                    commit_properties=properties,
                )
            else:
                self._widen(table)
                actions: list[AddAction | RemoveAction] = [*adds, *removes]
                table.create_write_transaction(
                    actions, "append", table.schema(), self._partition_by, commit_properties=properties
                )
        except CommitFailedError:
            return False
        except DeltaError as error:
            if table is None and DeltaTable.is_deltatable(self._place.url):
                return False
            raise StoreError("E_STORE_IO", f"cannot commit to {self._place.uri}: {error!s:.200}") from None
        return True

    def _widen(self, table: DeltaTable) -> None:
        """Adds the columns that rows of the pipeline have and the table does not; other differences are refused."""
        there = {field.name: field for field in table.schema().fields}
        missing = []
        for field in self._schema.fields:
            known = there.get(field.name)
            if known is None and field.nullable:
                missing.append(field)
            elif known is None or known.type != field.type:
                reason = "is not in the table" if known is None else f"is {known.type} in the table, not {field.type}"
                raise StoreError(
                    "E_STORE_VERSION",
                    f"{self._place.uri}: column {field.name} {reason}; write the table again into a new output",
                )
        if missing:
            table.alter.add_columns(missing)
            table.update_incremental()


def parquet_files(place: StoragePath) -> list[StoragePath]:
    """The files of a Delta table; of anything else the place itself."""
    if not place.under("_delta_log").exists():
        return [place]
    table = DeltaTable(place.url)
    return sorted((place.under(path) for path in pa.table(table.get_add_actions())["path"].to_pylist()), key=str)


def delta_schema(table: Table, partition_by: Sequence[str] = ()) -> Schema:
    """Columns of a table, each with its description, then those that it is partitioned by."""
    fields = [Field(c.name, _TYPES[c.type], nullable=c.nullable, metadata={"comment": c.about}) for c in table.columns]
    return Schema(fields + [Field(name, PrimitiveType("string"), nullable=False) for name in partition_by])


def statistics(metadata: pq.FileMetaData) -> dict[str, Any]:
    """Rows, bounds and nulls of the columns of a file, in Delta's form; columns without exact bounds have none.

    >>> import io; sink = io.BytesIO()
    >>> pq.write_table(pa.table({"n": [3, 1, None], "b": [b"x"] * 3}), sink)
    >>> statistics(pq.read_metadata(sink))
    {'numRecords': 3, 'minValues': {'n': 1}, 'maxValues': {'n': 3}, 'nullCount': {'n': 1, 'b': 0}}
    """
    least: dict[str, Any] = {}
    most: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for index in range(metadata.num_columns):
        name = metadata.schema.column(index).path
        found = [metadata.row_group(group).column(index).statistics for group in range(metadata.num_row_groups)]
        if "." in name or not found or any(one is None or not one.has_null_count for one in found):
            continue
        nulls[name] = sum(one.null_count for one in found)
        bounded = [one for one in found if one.has_min_max]
        ends = [value for one in bounded for value in (one.min, one.max)]
        if ends and len(bounded) == len(found) and all(map(_comparable, ends)):
            least[name], most[name] = min(ends), max(ends)
    return {"numRecords": metadata.num_rows, "minValues": least, "maxValues": most, "nullCount": nulls}


def _comparable(value: object) -> bool:
    if isinstance(value, str):
        return len(value) <= TEXT_MAX
    return isinstance(value, int) and not isinstance(value, bool)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
