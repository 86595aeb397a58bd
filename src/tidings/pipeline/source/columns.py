"""Columns of rows beside the attributes and header fields of messages, in both directions.

| column | attribute that is read | attribute that is written |
|---|---|---|
| text, boolean, binary, double, float | of the same kind; a number for both kinds of fractions | the same |
| tinyint to bigint | whole numbers in its range | the same |
| timestamp, timestamp_ntz | ISO 8601 (without a zone: UTC), or milliseconds since 1970 | ISO 8601 in UTC |
| date | text as 2026-11-15 | the same |
| decimal(p, s) | text or a number that it holds without rounding | text |

A value that does not fit is null when it is read. Names that begin with JMS are header fields, as selectors know them.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from functools import lru_cache, partial
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as t

from tidings.errors import UsageError
from tidings.model.destination import Destination
from tidings.model.message import PRIORITY_DEFAULT, PRIORITY_MAX, Message, reserved
from tidings.model.values import Value

Fit: TypeAlias = Callable[[Value | None], Any]
Header: TypeAlias = tuple[str | None, str | None, str | None, int | None, int | None, int | None]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
HEADERS: dict[str, Callable[[Message], Value | None]] = {
    "JMSCorrelationID": lambda message: message.correlation_id,
    "JMSDeliveryMode": lambda message: "PERSISTENT" if message.persistent else "NON_PERSISTENT",
    "JMSExpiration": lambda message: message.expiration_ms,
    "JMSMessageID": lambda message: message.id.jms,
    "JMSPriority": lambda message: message.priority,
    "JMSReplyTo": lambda message: None if message.reply_to is None else str(message.reply_to),
    "JMSTimestamp": lambda message: message.id.ms if message.timestamp_ms is None else message.timestamp_ms,
    "JMSType": lambda message: message.type,
}
WRITTEN: dict[str, type[t.DataType]] = {
    "JMSCorrelationID": t.StringType,
    "JMSExpiration": t.LongType,
    "JMSPriority": t.IntegralType,
    "JMSReplyTo": t.StringType,
    "JMSType": t.StringType,
}
PLAIN = (t.StringType, t.BinaryType, t.BooleanType, t.IntegralType, t.FloatType, t.DoubleType, t.NullType)
AS_TEXT = (t.TimestampType, t.TimestampNTZType, t.DateType, t.DecimalType)
NO_HEADER: Header = (None,) * 6
_WHOLE = {t.LongType: 63, t.IntegerType: 31, t.ShortType: 15, t.ByteType: 7}


# --- reading ---


def value_of(field: t.StructField) -> Callable[[Message], Any]:
    """The value of a column in a message; null if there is none that fits."""
    fits, name = fitting(field), field.name
    if name in HEADERS:
        header = HEADERS[name]
        return lambda message: fits(header(message))
    if reserved(name):
        raise UsageError("E_SOURCE_COLUMN", f"{name}: header fields are {', '.join(HEADERS)}")
    return lambda message: fits(message.properties.get(name))


def fitting(field: t.StructField) -> Fit:
    """The conversion of values to a column's type; null for those that do not fit."""
    kind = field.dataType
    if isinstance(kind, t.DoubleType | t.FloatType):
        return lambda value: float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
    for spark, python in ((t.StringType, str), (t.BooleanType, bool), (t.BinaryType, bytes)):
        if isinstance(kind, spark):
            return partial(_of_type, python)
    for whole, bits in _WHOLE.items():
        if isinstance(kind, whole):
            return partial(_whole, 1 << bits)
    if isinstance(kind, t.TimestampType):
        return moment
    if isinstance(kind, t.TimestampNTZType):
        return lambda value: None if (found := moment(value)) is None else found.replace(tzinfo=None)
    if isinstance(kind, t.DateType):
        return _date
    if isinstance(kind, t.DecimalType):
        return partial(_decimal, kind.precision, kind.scale)
    raise UsageError("E_SOURCE_COLUMN", f"{field.name}: an attribute cannot be {kind.simpleString()}")


def _of_type(python: type, value: Value | None) -> Any:
    return value if isinstance(value, python) else None


def _whole(limit: int, value: Value | None) -> int | None:
    whole = isinstance(value, int) and not isinstance(value, bool)
    return int(value) if whole and -limit <= value < limit else None  # type: ignore[arg-type, operator]


def moment(value: Value | None) -> datetime | None:
    """
    >>> moment("2026-11-15T09:30:00.5+01:00"), moment(1500), moment("noon"), moment(True)
    (datetime.datetime(2026, 11, 15, 8, 30, 0, 500000, tzinfo=datetime.timezone.utc), \
datetime.datetime(1970, 1, 1, 0, 0, 1, 500000, tzinfo=datetime.timezone.utc), None, None)
    """
    try:
        if isinstance(value, str):
            found = datetime.fromisoformat(value)
            return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
        if isinstance(value, int) and not isinstance(value, bool):
            return EPOCH + timedelta(milliseconds=value)
    except (ValueError, OverflowError):
        pass
    return None


def _date(value: Value | None) -> date | None:
    try:
        return date.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None


def _decimal(precision: int, scale: int, value: Value | None) -> Decimal | None:
    """
    >>> _decimal(5, 2, "123.4"), _decimal(5, 2, "1234.5"), _decimal(5, 2, 0.125), _decimal(5, 2, 7)
    (Decimal('123.40'), None, None, Decimal('7.00'))
    """
    if isinstance(value, bool | bytes) or value is None:
        return None
    try:
        exact = Decimal(value if isinstance(value, str | int) else repr(value))
        found = exact.quantize(Decimal(1).scaleb(-scale)) if exact.is_finite() else exact
    except InvalidOperation:
        return None
    return found if found == exact and len(found.as_tuple().digits) <= precision else None


# --- writing ---


def check_written(field: t.StructField) -> None:
    """A column that cannot be an attribute or a header field is refused here, not on a worker."""
    kind, wanted = field.dataType, WRITTEN.get(field.name)
    if wanted is not None:
        if not isinstance(kind, wanted):
            raise UsageError("E_SOURCE_COLUMN", f"{field.name} is {wanted.typeName()}, not {kind.simpleString()}")
    elif not isinstance(kind, (*PLAIN, *AS_TEXT)):
        raise UsageError("E_SOURCE_COLUMN", f"{field.name}: an attribute cannot be {kind.simpleString()}")


def values_of(column: pa.Array, kind: t.DataType) -> list[Any]:
    """The values of a column as attributes; None where it is null.

    >>> values_of(pa.array([1500000, None], pa.timestamp("us", "UTC")), t.TimestampType())
    ['1970-01-01T00:00:01.500000Z', None]
    """
    if isinstance(kind, t.TimestampType):
        column = pc.strftime(column.cast(pa.timestamp("us", "UTC")), "%Y-%m-%dT%H:%M:%SZ")
    elif isinstance(kind, t.TimestampNTZType):
        column = pc.strftime(column, "%Y-%m-%dT%H:%M:%S")
    elif isinstance(kind, t.DateType | t.DecimalType):
        column = column.cast(pa.string())
    found: list[Any] = column.to_pylist()
    return found


def headers_of(columns: Mapping[str, list[Any]], rows: int) -> Iterable[tuple[int, Header]]:
    """Of each row the priority and the other header fields."""
    none = [None] * rows
    priorities = [PRIORITY_DEFAULT if one is None else one for one in columns.get("JMSPriority", none)]
    if wrong := [one for one in priorities if not 0 <= one <= PRIORITY_MAX]:
        raise UsageError("E_SOURCE_ROW", f"JMSPriority must be from 0 to {PRIORITY_MAX}, not {wrong[0]}")
    correlations, types, replies, expirations = (
        columns.get(name, none) for name in ("JMSCorrelationID", "JMSType", "JMSReplyTo", "JMSExpiration")
    )
    if any(one is not None and one < 1 for one in expirations):
        raise UsageError("E_SOURCE_ROW", "JMSExpiration must be milliseconds since 1970, at least 1")
    for priority, correlation, type, reply, expires in zip(
        priorities, correlations, types, replies, expirations, strict=True
    ):
        to = None if reply is None else str(destination(reply))
        yield priority, (correlation, type, to, None, expires, None)


@lru_cache(maxsize=1 << 14)
def destination(text: str) -> Destination:
    return Destination.parse(text)
