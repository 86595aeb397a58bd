"""Arrow schemas of the tables, and the version that every segment carries in its metadata."""

from functools import cache
from typing import TYPE_CHECKING

from tidings.extras import lazy
from tidings.model.tables import Table, Type

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = lazy("pyarrow")

TABLE_KEY, VERSION_KEY = b"tidings.table", b"tidings.version"


@cache
def _arrow_types() -> "dict[Type, pa.DataType]":
    return {
        Type.INT: pa.int64(),
        Type.FLOAT: pa.float64(),
        Type.FLAG: pa.bool_(),
        Type.TEXT: pa.string(),
        Type.BYTES: pa.binary(),
        Type.INTS: pa.list_(pa.field("element", pa.int64(), nullable=False)),
    }


@cache
def arrow_schema(table: Table) -> "pa.Schema":
    fields = [pa.field(column.name, _arrow_types()[column.type], column.nullable) for column in table.columns]
    return pa.schema(fields, {TABLE_KEY: table.name.encode(), VERSION_KEY: str(table.version).encode()})
