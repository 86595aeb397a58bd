"""Columns of an event type: its attributes, those of its parents first, beside what every message has.

>>> trade = EventType("Trade", attributes={"price": AttributeType.FLOAT})
>>> columns_of([trade, EventType("Sale", "Trade", {"buyer": AttributeType.STRING})]).simpleString()
'struct<id:binary,offset:bigint,ts:timestamp,destination:string,price:double,buyer:string>'
"""

from collections.abc import Sequence
from typing import assert_never

from pyspark.sql import types as t

from tidings.errors import UsageError
from tidings.model.event_type import AttributeType, EventType
from tidings.pipeline.source.options import BrokerAccess
from tidings.pipeline.source.rows import FIXED

BESIDE = ("id", "offset", "ts", "destination")


def event_schema(access: BrokerAccess, name: str) -> t.StructType:
    """Asks the broker for the type."""
    with access.connect() as client:
        return columns_of(client.get_type(name))


def columns_of(chain: Sequence[EventType]) -> t.StructType:
    """The columns for a type after its ancestors."""
    columns = {name: FIXED[name][0] for name in BESIDE}
    for one in chain:
        for name, kind in one.attributes.items():
            if name in FIXED:
                raise UsageError("E_SOURCE_COLUMN", f"{one.name}.{name}: every message has this column; give a schema")
            columns[name] = _spark(kind)
    return t.StructType([t.StructField(name, kind) for name, kind in columns.items()])


def _spark(kind: AttributeType) -> t.DataType:
    match kind:
        case AttributeType.BOOL:
            return t.BooleanType()
        case AttributeType.INT:
            return t.LongType()
        case AttributeType.FLOAT:
            return t.DoubleType()
        case AttributeType.STRING:
            return t.StringType()
        case AttributeType.BYTES:
            return t.BinaryType()
        case AttributeType.TIME:
            return t.TimestampType()
        case _:
            assert_never(kind)
