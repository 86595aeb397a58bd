"""Appending rows: one segment at a time, there in full or not at all, and never a second time under the same name.

A segment is made in memory, written under a temporary name and synced; then it gets its name by a hard link, which
fails where a rename would overwrite; then the directory is synced. A crash leaves at most a temporary file, which the
next writer of the same name removes.

Columns are compressed with zstd; of filters see `filter_groups`.
"""

import errno
import os
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from tidings.errors import StoreError, UsageError
from tidings.extras import lazy
from tidings.model.tables import HISTORIES, Table
from tidings.segments.arrow_schema import arrow_schema
from tidings.segments.durable import sync_directory
from tidings.segments.filter_groups import write_filters
from tidings.segments.names import TEMPORARY_PREFIX, SegmentName, check_writer

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq
else:
    pa, pq = lazy("pyarrow"), lazy("pyarrow.parquet")

Columns: TypeAlias = Mapping[str, Sequence[Any]]

ROWS_PER_GROUP = 65_536


class SegmentWriter:
    """Of one table, by one process. Rows are mappings from column to value; every append is one segment."""

    def __init__(self, root: Path, table: Table, writer: str) -> None:
        self._directory, self._table, self._writer = root / table.name, table, check_writer(writer)
        _do(f"make {self._directory}", lambda: self._directory.mkdir(parents=True, exist_ok=True))
        for left in self._directory.glob(f"{TEMPORARY_PREFIX}*-{writer}-*.parquet"):
            left.unlink(missing_ok=True)
        own = [name.sequence for name in _names(self._directory) if name.writer == writer]
        self._sequence = max(own, default=-1) + 1

    def append(self, rows: Sequence[Mapping[str, Any]], now_ms: int) -> Path:
        """On disk when it returns."""
        names = arrow_schema(self._table).names
        try:
            columns = {name: [row[name] for row in rows] for name in names}
        except KeyError as error:
            raise UsageError("E_SEGMENT_ROW", f"not a row of {self._table.name}: {error}") from None
        return self.append_columns(columns, now_ms)

    def append_columns(self, columns: Columns, now_ms: int) -> Path:
        """The same for many rows at a time, given as the values of each column."""
        sink = pa.BufferOutputStream()
        if self._table is HISTORIES:
            write_filters(_arrow(self._table, columns, without="data"), columns["data"], sink)
        else:
            _write(self._table, _arrow(self._table, columns), sink)
        data = sink.getvalue()
        name = SegmentName(now_ms, self._writer, self._sequence, zlib.crc32(data))
        path = self._directory / str(name)
        _do(f"write {path}", lambda: _publish(data, path))
        self._sequence += 1
        return path


def _arrow(table: Table, columns: Columns, without: str = "") -> "pa.Table":
    schema = arrow_schema(table)
    if without:
        schema = schema.remove(schema.get_field_index(without))
    try:
        made = pa.Table.from_pydict({name: columns[name] for name in schema.names}, schema)
    except (KeyError, pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        raise UsageError("E_SEGMENT_ROW", f"not a row of {table.name}: {error}") from None
    for field, column in zip(schema, made.columns, strict=True):
        if column.null_count and not field.nullable:
            raise UsageError("E_SEGMENT_ROW", f"not a row of {table.name}: {field.name} must not be null")
    if not made.num_rows:
        raise UsageError("E_SEGMENT_EMPTY", "a segment must have at least one row")
    return made


def _write(table: Table, rows: "pa.Table", sink: "pa.NativeFile") -> None:
    plain = [column.name for column in table.columns if column.name not in ("message", "id")]
    alike = [name for name in plain if name != "value"]
    pq.write_table(
        rows,
        sink,
        row_group_size=ROWS_PER_GROUP,
        compression="zstd",
        use_dictionary=alike,
        write_statistics=alike,
        write_page_checksum=True,
    )


def _publish(data: "pa.Buffer", path: Path) -> None:
    temporary = path.with_name(TEMPORARY_PREFIX + path.name)
    file = temporary.open("xb")
    try:
        with file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)  # hardly read again: others need the memory
        os.link(temporary, path)
    finally:
        temporary.unlink()  # on a full disk too: an incomplete file takes space
    sync_directory(path.parent)


def _names(directory: Path) -> list[SegmentName]:
    return [name for path in directory.iterdir() if (name := SegmentName.parse(path.name)) is not None]


def _do(what: str, work: Callable[[], object]) -> None:
    try:
        work()
    except FileExistsError:
        raise StoreError("E_STORE_LOCKED", f"cannot {what}: another writer uses that name") from None
    except OSError as error:
        code = "E_STORE_FULL" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "E_STORE_IO"
        raise StoreError(code, f"cannot {what}: {error}") from None
