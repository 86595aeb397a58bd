"""Arrow schemas of the tables, and the version that every segment carries in its metadata."""

from functools import cache

import pyarrow as pa

from tidings.model.tables import Table, Type

TABLE_KEY, VERSION_KEY = b"tidings.table", b"tidings.version"

_ARROW = {
    Type.INT: pa.int64(),
    Type.FLOAT: pa.float64(),
    Type.FLAG: pa.bool_(),
    Type.TEXT: pa.string(),
    Type.BYTES: pa.binary(),
    Type.INTS: pa.list_(pa.field("element", pa.int64(), nullable=False)),
}


@cache
def arrow_schema(table: Table) -> pa.Schema:
    fields = [pa.field(column.name, _ARROW[column.type], column.nullable) for column in table.columns]
    return pa.schema(fields, {TABLE_KEY: table.name.encode(), VERSION_KEY: str(table.version).encode()})
