"""Messages as rows: columns of a given schema are attributes by name, apart from a few that every message has.

    id binary, offset bigint, ts timestamp, destination string, body binary, attributes map<string, string>

A value that does not fit its column's type is null there: a column of numbers holds no text, one of whole numbers no
fractions (`columns`). What a message does not have is null as well.
"""

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any, TypeAlias

import pyarrow as pa
from pyspark.sql import types as t
from pyspark.sql.pandas.types import to_arrow_schema

from tidings.errors import UsageError
from tidings.model.destination import Destination
from tidings.model.message import Message
from tidings.model.values import Value
from tidings.pipeline.source.columns import EPOCH, value_of

Cell: TypeAlias = Callable[[int, Message], Any]
DEFAULT_SCHEMA = t.StructType(
    [
        t.StructField("id", t.BinaryType()),
        t.StructField("ts", t.TimestampType()),
        t.StructField("destination", t.StringType()),
        t.StructField("attributes", t.MapType(t.StringType(), t.StringType())),
        t.StructField("body", t.BinaryType()),
    ]
)
FIXED: dict[str, tuple[t.DataType, Cell]] = {
    "id": (t.BinaryType(), lambda offset, message: bytes(message.id)),
    "offset": (t.LongType(), lambda offset, message: offset),
    "ts": (t.TimestampType(), lambda offset, message: _when(message.id.ms)),
    "destination": (t.StringType(), lambda offset, message: _where(message.destination)),
    "body": (t.BinaryType(), lambda offset, message: message.body),
    "attributes": (
        t.MapType(t.StringType(), t.StringType()),
        lambda offset, message: [(name, as_text(value)) for name, value in message.properties.items()],
    ),
}


def _when(ms: int) -> datetime | None:
    """None: a time after the year 9999, which Python cannot tell; some publisher's clock is far off.

    >>> _when(253_402_300_799_999), _when(253_402_300_800_000)
    (datetime.datetime(9999, 12, 31, 23, 59, 59, 999000, tzinfo=datetime.timezone.utc), None)
    """
    try:
        return EPOCH + timedelta(milliseconds=ms)
    except OverflowError:
        return None


def _where(destination: Destination) -> str:
    """As `publish` takes it: a topic by its name if that reads as one, else with `topic:` or `queue:` before it."""
    plain = not destination.queue and not set(destination.name) & {"/", ":"}
    return destination.name if plain else str(destination)


def as_text(value: Value) -> str:
    """As `attributes` shows it; bytes as hexadecimal digits.

    >>> as_text(True), as_text(1.5), as_text(bytes([0, 255]))
    ('true', '1.5', '00ff')
    """
    if isinstance(value, bytes):
        return value.hex()
    return str(value).lower() if isinstance(value, bool) else str(value)


class RowMaker:
    def __init__(self, schema: t.StructType) -> None:
        self.schema = schema
        self._cells = [_cell(one) for one in schema.fields]

    def batch(self, messages: Iterable[tuple[int, Message]]) -> pa.RecordBatch:
        some = list(messages)
        types = to_arrow_schema(self.schema, timezone="UTC")
        columns = [
            pa.array([cell(offset, message) for offset, message in some], kind.type)
            for cell, kind in zip(self._cells, types, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=types)


def check_fixed(field: t.StructField) -> None:
    """A column that every message has is of its type."""
    kind, given = FIXED[field.name][0], field.dataType
    if not _alike(kind, given):
        wrong = f"{field.name} is {kind.simpleString()}, not {given.simpleString()}: a name that is taken"
        raise UsageError("E_SOURCE_COLUMN", wrong)


def _alike(kind: t.DataType, given: t.DataType) -> bool:
    """Apart from what may be null.

    >>> text, number = t.StringType(), t.LongType()
    >>> [_alike(t.MapType(text, text), one) for one in (t.MapType(text, text, False), t.MapType(text, number), text)]
    [True, False, False]
    """
    if isinstance(kind, t.MapType) and isinstance(given, t.MapType):
        return _alike(kind.keyType, given.keyType) and _alike(kind.valueType, given.valueType)
    return type(given) is type(kind)


def _cell(field: t.StructField) -> Cell:
    if field.name in FIXED:
        check_fixed(field)
        return FIXED[field.name][1]
    value = value_of(field)
    return lambda offset, message: value(message)
