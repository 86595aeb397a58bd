"""Rows as messages, on the workers: every task encodes its rows and stages them for the driver (`batch_commit`).

Columns are attributes, apart from `destination`, `body` and `attributes`. `id`, `ts` and `offset` are left out where
they are what a read gives: a message that is published gets its own.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any
from uuid import uuid4

from pyspark import TaskContext
from pyspark.sql import Row
from pyspark.sql import types as t
from pyspark.sql.datasource import DataSourceStreamWriter, DataSourceWriter, WriterCommitMessage

from tidings.errors import UsageError
from tidings.model.message import check_property_name
from tidings.pipeline.source.batch_commit import BatchPublisher, StagedRows, digest_of, encode_row
from tidings.pipeline.source.options import WriteOptions
from tidings.pipeline.source.rows import FIXED, check_fixed

_ATTRIBUTES = (t.StringType, t.BinaryType, t.BooleanType, t.IntegralType, t.FloatType, t.DoubleType, t.NullType)


class RowStager:
    """Encodes the rows of a task."""

    def __init__(self, options: WriteOptions, schema: t.StructType) -> None:
        self._destination = options.destination
        self._names = schema.fieldNames()
        for field in schema.fields:
            _check_column(field)
        if not options.destination and "destination" not in self._names:
            raise UsageError("E_SOURCE_OPTION", "destination: set the option, or add the column")

    def stage(self, rows: Iterator[Row], query: str) -> StagedRows:
        encoded = [encode_row(*self._message(row)) for row in rows]
        return StagedRows(query, encoded, digest_of(encoded))

    def _message(self, row: Row) -> tuple[str, dict[str, Any], bytes]:
        values = dict(zip(self._names, row, strict=True))
        destination = self._destination or values.get("destination")
        if not destination:
            raise UsageError("E_SOURCE_ROW", "the destination of a row is null")
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
        self._options, self._stager = options, RowStager(options, schema)
        self._id = options.write_id or uuid4().hex

    def write(self, iterator: Iterator[Row]) -> StagedRows:
        return self._stager.stage(iterator, "")

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        BatchPublisher(self._options, json.dumps(["write", self._id]), 0, _staged(messages)).publish()


class StreamWriter(DataSourceStreamWriter):
    def __init__(self, options: WriteOptions, schema: t.StructType) -> None:
        self._options, self._stager = options, RowStager(options, schema)

    def write(self, iterator: Iterator[Row]) -> StagedRows:
        context = TaskContext.get()
        query = context and context.getLocalProperty("sql.streaming.queryId")
        if not query:
            raise UsageError("E_SOURCE_STREAM", "Spark does not name the query of this task")
        return self._stager.stage(iterator, query)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        staged = _staged(messages)
        queries = {one.query for one in staged}
        if len(queries) > 1:
            raise UsageError("E_SOURCE_STREAM", f"Spark names several queries for one batch: {', '.join(queries)}")
        for query in queries:
            BatchPublisher(self._options, json.dumps(["stream", query]), batchId, staged).publish()


def _staged(messages: Sequence[WriterCommitMessage | None]) -> list[StagedRows]:
    """The results of all tasks; one that is missing would be lost rows."""
    staged = [one for one in messages if isinstance(one, StagedRows)]
    if len(staged) < len(messages):
        raise UsageError("E_SOURCE_STREAM", "Spark asks for a commit without the results of all tasks")
    return staged
