"""Rows as encoded messages and back: what a column holds is what its attribute says, and the reverse."""

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import types as t
from pyspark.sql.pandas.types import to_arrow_schema

from tidings.errors import UsageError
from tidings.kernel.codec import decode_message
from tidings.model.destination import Destination
from tidings.model.message import Message
from tidings.model.values import Value
from tidings.pipeline.source.options import WriteOptions
from tidings.pipeline.source.row_writer import RowStager
from tidings.pipeline.source.rows import RowMaker

OPTIONS = WriteOptions.of({"destination": "x"}, False)
SCHEMA = t.StructType(
    [
        t.StructField("n", t.LongType()),
        t.StructField("small", t.ByteType()),
        t.StructField("price", t.DoubleType()),
        t.StructField("stock", t.StringType()),
        t.StructField("raw", t.BinaryType()),
        t.StructField("good", t.BooleanType()),
        t.StructField("at", t.TimestampType()),
        t.StructField("local", t.TimestampNTZType()),
        t.StructField("day", t.DateType()),
        t.StructField("sum", t.DecimalType(20, 4)),
        t.StructField("JMSPriority", t.IntegerType()),
        t.StructField("JMSCorrelationID", t.StringType()),
        t.StructField("body", t.BinaryType()),
    ]
)
TIMES = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30))  # noqa: DTZ001
ROWS = st.fixed_dictionaries(
    {
        "n": st.none() | st.integers(-(2**63), 2**63 - 1),
        "small": st.none() | st.integers(-128, 127),
        "price": st.none() | st.floats(allow_nan=False),
        "stock": st.none() | st.text(max_size=20),
        "raw": st.none() | st.binary(max_size=20),
        "good": st.none() | st.booleans(),
        "at": st.none() | TIMES.map(lambda at: at.replace(tzinfo=UTC)),
        "local": st.none() | TIMES,
        "day": st.none() | st.dates(date(1, 1, 2)),
        "sum": st.none() | st.decimals(-(10**16) + 1, 10**16 - 1, places=4),
        "JMSPriority": st.integers(0, 9),
        "JMSCorrelationID": st.none() | st.text(max_size=20),
        "body": st.binary(max_size=50),
    }
)


KINDS = {one.simpleString(): one for one in (field.dataType for field in SCHEMA.fields)} | {
    "int": t.IntegerType(),
    "decimal(6,2)": t.DecimalType(6, 2),
    "map<string,string>": t.MapType(t.StringType(), t.StringType()),
    "array<int>": t.ArrayType(t.IntegerType()),
}


def of(text: str) -> t.StructType:
    """Columns as SQL writes them, without a session."""
    pairs = (one.split(" ") for one in text.split("; "))
    return t.StructType([t.StructField(name, KINDS[kind]) for name, kind in pairs])


def batch_of(rows: list[dict[str, Any]], schema: t.StructType) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, to_arrow_schema(schema, timezone="UTC"))


def encoded(rows: list[dict[str, Any]], schema: t.StructType, options: WriteOptions = OPTIONS) -> list[bytes]:
    return RowStager(options, schema).encode(batch_of(rows, schema))


def message(schema: str, **row: Any) -> Message:
    (found,) = encoded([row], of(schema))
    return decode_message(found)


@given(st.lists(ROWS, max_size=5))
def test_what_was_written_is_read_again(rows: list[dict[str, Any]]) -> None:
    messages = [decode_message(one) for one in encoded(rows, SCHEMA)]
    assert RowMaker(SCHEMA).batch(enumerate(messages)).to_pylist() == rows


@given(ROWS)
def test_equal_rows_have_equal_encodings(row: dict[str, Any]) -> None:
    other = t.StructType(SCHEMA.fields[::-1])
    assert encoded([row], SCHEMA) == encoded([row], other)


def test_attributes_of_a_map_stand_beside_columns() -> None:
    found = message("attributes map<string,string>; n int", attributes=[("b", "1"), ("a", None)], n=7)
    assert dict(found.properties) == {"b": "1", "n": 7}
    assert found.persistent
    assert message("body string", body="grüße").body == "grüße".encode()


def test_times_and_numbers_are_text_that_others_read() -> None:
    row = {"at": datetime(2026, 11, 15, 9, 30, tzinfo=UTC), "day": date(2026, 11, 15), "sum": Decimal("1.5")}
    found = message("at timestamp; day date; sum decimal(6,2)", **row)
    assert dict(found.properties) == {"at": "2026-11-15T09:30:00.000000Z", "day": "2026-11-15", "sum": "1.50"}


def test_what_does_not_fit_is_null() -> None:
    made = RowMaker(of("a timestamp; b date; c decimal(6,2); d binary; e tinyint"))
    wrong: dict[str, Value] = {"a": "noon", "b": "2026-13-01", "c": "1.234", "d": "x", "e": 128}
    assert made.batch([(1, Message(Destination("x"), wrong))]).to_pylist() == [dict.fromkeys("abcde")]


@pytest.mark.parametrize(
    ("schema", "row", "reason"),
    [
        ("price double", {"price": float("nan")}, "E_VALUE_NAN"),
        ("JMSPriority int", {"JMSPriority": 10}, "E_SOURCE_ROW: JMSPriority must be from 0 to 9"),
        ("JMSExpiration bigint", {"JMSExpiration": 0}, "E_SOURCE_ROW: JMSExpiration must be"),
        ("JMSReplyTo string", {"JMSReplyTo": ""}, "E_DESTINATION"),
        ("attributes map<string,string>", {"attributes": [("JMSFoo", "x")]}, "reserved"),
    ],
)
def test_a_row_that_cannot_be_a_message_is_refused(schema: str, row: dict[str, Any], reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        message(schema, **row)


@pytest.mark.parametrize("schema", ["JMSPriority string", "JMSFoo string", "JMSDeliveryMode string", "a array<int>"])
def test_a_column_that_cannot_be_written_is_refused(schema: str) -> None:
    with pytest.raises(UsageError):
        RowStager(OPTIONS, of(schema))
    with pytest.raises(UsageError, match="E_SOURCE_OPTION: destination"):
        RowStager(WriteOptions.of({}, False), SCHEMA)


def test_the_destination_may_be_a_column() -> None:
    schema = of("destination string")
    options = WriteOptions.of({"persistent": "false"}, False)
    rows = [{"destination": "queue:orders"}, {"destination": "a.b"}]
    found = [decode_message(one) for one in encoded(rows, schema, options)]
    assert [str(one.destination) for one in found] == ["queue:orders", "topic:a.b"]
    assert not found[0].persistent
    with pytest.raises(UsageError, match="the destination of a row is null"):
        encoded([{"destination": None}], schema, options)
