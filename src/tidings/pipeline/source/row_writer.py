"""Rows as messages, on the workers: every task encodes its rows and stages them for the driver (`batch_commit`).

Columns are attributes, apart from `destination`, `body`, `attributes` and header fields (`columns`). `id`, `ts` and
`offset` are left out where they are what a read gives: a message that is published gets its own. Rows come as Arrow
batches and are encoded by the kernel, one call a row.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import repeat
from typing import Any
from uuid import uuid4

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import types as t
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from tidings.errors import UsageError
from tidings.kernel.codec import encode_parts
from tidings.model.message import PRIORITY_DEFAULT, check_property_name
from tidings.pipeline.source.batch_commit import BatchPublisher, StagedRows
from tidings.pipeline.source.columns import (
    NO_HEADER,
    PLAIN,
    WRITTEN,
    Header,
    check_written,
    destination,
    headers_of,
    values_of,
)
from tidings.pipeline.source.options import WriteOptions
from tidings.pipeline.source.rows import FIXED, check_fixed

NO_ID = bytes(16)
USUAL: tuple[int, Header] = (PRIORITY_DEFAULT, NO_HEADER)
_named = lru_cache(maxsize=1 << 12)(check_property_name)


class RowStager:
    """Encodes the rows of a task."""

    def __init__(self, options: WriteOptions, schema: t.StructType) -> None:
        self._destination, self._persistent = options.destination, options.persistent
        self._fields = schema.fields
        self._names = sorted(one.name for one in schema.fields if one.name not in FIXED and one.name not in WRITTEN)
        for field in schema.fields:
            _check_column(field)
        if not options.destination and "destination" not in schema.fieldNames():
            raise UsageError("E_SOURCE_OPTION", "destination: set the option, or add the column")

    def stage(self, batches: Iterator[pa.RecordBatch], query: str) -> StagedRows:
        return StagedRows(query, [row for batch in batches for row in self.encode(batch)])

    def encode(self, batch: pa.RecordBatch) -> list[bytes]:
        """The rows as messages without ids, attributes in the order of their names."""
        count = batch.num_rows
        pairs = zip(self._fields, batch.columns, strict=True)
        wanted = {*self._names, *WRITTEN, "destination", "body", "attributes"}
        columns = {one.name: values_of(column, one.dataType) for one, column in pairs if one.name in wanted}
        targets = repeat(self._destination, count) if self._destination else columns["destination"]
        headers = headers_of(columns, count) if WRITTEN.keys() & columns.keys() else repeat(USUAL, count)
        bodies = columns.get("body") or [b""] * count
        persistent, rows = self._persistent, list[bytes]()
        for target, (priority, header), attributes, body in zip(
            targets, headers, self._attributes(columns, count), bodies, strict=True
        ):
            if not target:
                raise UsageError("E_SOURCE_ROW", "the destination of a row is null")
            to, content = destination(target), body.encode() if isinstance(body, str) else body or b""
            rows.append(encode_parts(persistent, to.queue, priority, NO_ID, to.name, header, attributes, content))
        return rows

    def _attributes(self, columns: dict[str, list[Any]], count: int) -> Iterable[dict[str, Any]]:
        names = self._names
        rows = zip(*(columns[name] for name in names), strict=True) if names else repeat((), count)
        maps = columns.get("attributes")
        if maps is None:
            for row in rows:
                yield {name: value for name, value in zip(names, row, strict=True) if value is not None}
            return
        for row, more in zip(rows, maps, strict=True):
            own = {_named(name): value for name, value in more or () if value is not None}
            own |= {name: value for name, value in zip(names, row, strict=True) if value is not None}
            yield dict(sorted(own.items()))


def _check_column(field: t.StructField) -> None:
    """Refused here, not on a worker: what could not be published, or only as something else."""
    kind = field.dataType
    if field.name == "attributes":
        if not isinstance(kind, t.MapType) or not isinstance(kind.keyType, t.StringType):
            raise UsageError("E_SOURCE_COLUMN", f"attributes is a map from text, not {kind.simpleString()}")
        if not isinstance(kind.valueType, PLAIN):
            raise UsageError(
                "E_SOURCE_COLUMN", f"attributes: an attribute cannot be {kind.valueType.simpleString()} there"
            )
    elif field.name in FIXED:
        if not (field.name == "body" and isinstance(kind, t.StringType)):  # text is published as UTF-8
            check_fixed(field)
    else:
        if field.name not in WRITTEN:
            check_property_name(field.name)
        check_written(field)


class BatchWriter(DataSourceArrowWriter):
    def __init__(self, options: WriteOptions, schema: t.StructType) -> None:
        self._options, self._stager = options, RowStager(options, schema)
        self._id = options.write_id or uuid4().hex

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedRows:
        return self._stager.stage(iterator, "")

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        BatchPublisher(self._options, json.dumps(["write", self._id]), 0, _staged(messages)).publish()


class StreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, options: WriteOptions, schema: t.StructType) -> None:
        self._options, self._stager = options, RowStager(options, schema)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedRows:
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
