"""Reading segments: listed by time, checked before they are believed.

Errors are StoreErrors that name the segment: E_STORE_DAMAGED for bytes that differ from those written (an empty or
truncated file too, or one that cannot be read at all), E_STORE_VERSION for another table or an unknown version,
E_STORE_IO for one that was deleted, or that this process lacks the means to open.
"""

import errno
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tidings.errors import StoreError
from tidings.extras import lazy
from tidings.model.tables import Table
from tidings.segments.arrow_schema import TABLE_KEY, VERSION_KEY, arrow_schema
from tidings.segments.names import SegmentName

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq
else:
    pa, pq = lazy("pyarrow"), lazy("pyarrow.parquet")

_PASSING = (errno.ENOENT, errno.EMFILE, errno.ENFILE, errno.ENOMEM)  # of which the segment is innocent


def _unreadable() -> tuple[type[Exception], ...]:
    return pa.ArrowException, OSError, UnicodeDecodeError  # the last: names of columns that are no text


@dataclass(frozen=True, slots=True)
class Segment:
    name: SegmentName
    path: Path


def segments(root: Path, table: Table) -> list[Segment]:
    """Segments of one table, oldest first; none if nothing was written to it."""
    directory = root / table.name
    if not directory.is_dir():
        return []
    found = [Segment(name, path) for path in directory.iterdir() if (name := SegmentName.parse(path.name)) is not None]
    return sorted(found, key=lambda segment: segment.name)


def open_segment(segment: Segment, table: Table, *, verified: bool = False) -> "pq.ParquetFile":
    """Checked against its table and version, and against its checksum unless that was done before.

    To be checked it is read as a whole; one that was checked before is read piece by piece, as it is asked for.
    """
    if verified:
        return _opened(segment.path, str(segment.path), table)
    try:
        data = segment.path.read_bytes()
    except OSError as error:
        code = "E_STORE_IO" if error.errno in _PASSING else "E_STORE_DAMAGED"
        raise StoreError(code, f"cannot read {segment.path}: {error}") from None
    return open_bytes(data, segment.name, str(segment.path), table)


def open_bytes(data: bytes, name: SegmentName, where: str, table: Table) -> "pq.ParquetFile":
    """The same for bytes that were read already; `where` is named in errors."""
    if not data:
        raise StoreError("E_STORE_DAMAGED", f"{where} is empty")
    if zlib.crc32(data) != name.crc32:
        raise StoreError("E_STORE_DAMAGED", f"{where}: {len(data)} bytes that fail the checksum in its name")
    return _opened(pa.BufferReader(data), where, table)


def _opened(source: "Path | pa.BufferReader", where: str, table: Table) -> "pq.ParquetFile":
    try:
        file = pq.ParquetFile(source, page_checksum_verification=True)
        metadata = file.schema_arrow.metadata or {}
        _check(where, table, metadata.get(TABLE_KEY), metadata.get(VERSION_KEY), file.schema_arrow)
    except FileNotFoundError as error:
        raise StoreError("E_STORE_IO", f"cannot read {where}: {error}") from None
    except _unreadable() as error:
        raise StoreError("E_STORE_DAMAGED", f"{where} is not a Parquet file: {error}") from None
    return file


def read_segment(segment: Segment, table: Table) -> "pa.Table":
    return read_columns(open_segment(segment, table), str(segment.path))


def read_columns(file: "pq.ParquetFile", where: str, columns: list[str] | None = None) -> "pa.Table":
    """Of one that was opened; `where` is named in errors."""
    try:
        # One thread: segments are small, and the reading process may fork, which Arrow's threads do not survive well.
        return file.read(columns=columns, use_threads=False)
    except _unreadable() as error:
        raise StoreError("E_STORE_DAMAGED", f"{where}: {error}") from None


def read_rows(root: Path, table: Table) -> Iterator[dict[str, object]]:
    """Every row of every segment, oldest segment first."""
    for segment in segments(root, table):
        yield from read_segment(segment, table).to_pylist()


def _check(path: str, table: Table, name: bytes | None, version: bytes | None, schema: "pa.Schema") -> None:
    if name is None or version is None:
        raise StoreError("E_STORE_VERSION", f"{path} is not a segment: no table and version in its metadata")
    if (name, version) != (table.name.encode(), str(table.version).encode()):
        found, wanted = f"{name.decode(errors='replace')} {version.decode(errors='replace')}", table
        reason = f"{path} is of table {found}; this reads {wanted.name} {wanted.version}"
        raise StoreError("E_STORE_VERSION", reason)
    if not schema.equals(arrow_schema(table)):
        raise StoreError("E_STORE_VERSION", f"{path} has other columns than {table.name} {table.version}")
