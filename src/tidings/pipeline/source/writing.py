"""Rows as messages: a partition is one transaction at the broker, which happens once, however often it is tried.

The key is (query, partition) with the number of the micro-batch, or for a batch write (write id, partition). A task
that is tried again, a batch that is run again after a crash: the broker knows that it has it. That asks for the same
rows in the same partitions, which Spark gives when it repeats a batch from the same offsets.

Columns are attributes, apart from `destination`, `body` and `attributes`. `id`, `ts` and `offset` are left out where
they are what a read gives: a message that is published gets its own.
"""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from pyspark import TaskContext
from pyspark.sql import Row
from pyspark.sql import types as t
from pyspark.sql.datasource import DataSourceStreamWriter, DataSourceWriter, WriterCommitMessage

from tidings.client import sync
from tidings.errors import RemoteError, UsageError
from tidings.model.message import check_property_name
from tidings.pipeline.source.options import WriteOptions
from tidings.pipeline.source.rows import FIXED, check_fixed

_ATTRIBUTES = (t.StringType, t.BinaryType, t.BooleanType, t.IntegralType, t.FloatType, t.DoubleType, t.NullType)
BUSY_SECONDS = 30.0  # another try of the same task may still be committing


@dataclass
class PublishedRows(WriterCommitMessage):
    messages: int
    new: bool  # False: it was done before


class RowPublisher:
    """Publishes rows in one transaction."""

    def __init__(self, options: WriteOptions, schema: t.StructType) -> None:
        self._options = options
        self._names = schema.fieldNames()
        for field in schema.fields:
            _check_column(field)
        if not options.destination and "destination" not in self._names:
            raise UsageError("E_SOURCE_OPTION", "destination: needed as an option or as a column")

    def publish(self, rows: Iterator[Row], key: str, number: int) -> PublishedRows:
        deadline = time.monotonic() + BUSY_SECONDS
        some = list(rows)
        if not some:
            return PublishedRows(0, new=False)
        with self._options.access.connect() as client:
            while True:
                try:
                    return self._try(client, some, key, number)
                except RemoteError as error:
                    if error.code != "E_COMMIT_BUSY" or time.monotonic() > deadline:
                        raise
                time.sleep(0.2)

    def _try(self, client: sync.Client, rows: list[Row], key: str, number: int) -> PublishedRows:
        with client.transaction() as work:
            for row in rows:
                destination, attributes, body = self._message(row)
                work.publish(destination, attributes, body, persistent=self._options.persistent, wait=False)
            return PublishedRows(len(rows), new=work.commit(key, number))

    def _message(self, row: Row) -> tuple[str, dict[str, Any], bytes]:
        values = dict(zip(self._names, row, strict=True))
        destination = self._options.destination or values.get("destination")
        if not destination:
            raise UsageError("E_SOURCE_ROW", "a row's destination is null")
        attributes = dict(values.get("attributes") or {})
        attributes |= {name: value for name, value in values.items() if name not in FIXED}
        attributes = {name: _attribute(value) for name, value in attributes.items() if value is not None}
        body = values.get("body") or b""
        return destination, attributes, body.encode() if isinstance(body, str) else bytes(body)


def _check_column(field: t.StructField) -> None:
    """Refused here, not on a worker: what could not be published, or only as something else."""
    kind = field.dataType
    if field.name == "attributes":
        if not isinstance(kind, t.MapType) or not isinstance(kind.keyType, t.StringType):
            raise UsageError("E_SOURCE_COLUMN", f"attributes is a map from text, not {kind.simpleString()}")
        kind = kind.valueType
    elif field.name in FIXED:
        if not (field.name == "body" and isinstance(kind, t.StringType)):  # text is published as UTF-8
            check_fixed(field)
        return
    check_property_name(field.name)
    if not isinstance(kind, _ATTRIBUTES):
        raise UsageError("E_SOURCE_COLUMN", f"{field.name}: an attribute cannot be {kind.simpleString()}")


def _attribute(value: Any) -> Any:
    return bytes(value) if isinstance(value, bytearray) else value


class BatchWriter(DataSourceWriter):
    def __init__(self, options: WriteOptions, schema: t.StructType) -> None:
        self._publisher = RowPublisher(options, schema)
        self._id = options.write_id or uuid4().hex

    def write(self, iterator: Iterator[Row]) -> PublishedRows:
        context = TaskContext.get()
        assert context is not None
        return self._publisher.publish(iterator, json.dumps(["write", self._id, context.partitionId()]), 1)


class StreamWriter(DataSourceStreamWriter):
    def __init__(self, options: WriteOptions, schema: t.StructType) -> None:
        self._publisher = RowPublisher(options, schema)

    def write(self, iterator: Iterator[Row]) -> PublishedRows:
        context = TaskContext.get()
        assert context is not None
        query = context.getLocalProperty("sql.streaming.queryId")
        batch = context.getLocalProperty("streaming.sql.batchId")
        if query is None or batch is None:
            raise UsageError("E_SOURCE_STREAM", "Spark does not say which query and batch this is")
        key = json.dumps(["stream", query, context.partitionId()])
        return self._publisher.publish(iterator, key, int(batch) + 1)
