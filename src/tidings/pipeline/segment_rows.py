"""Reads segments on workers, each once: its rows if it is as it was written, or the reason why it cannot be used.

A worker reads a segment as a whole and checks it as a broker would (checksum, table, version) before it passes on rows.
"""

from collections.abc import Iterator
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as t

from tidings.errors import StoreError
from tidings.model.tables import TABLES, Table
from tidings.pipeline.schemas import CLEAN, spark_schema
from tidings.pipeline.session import parallelism
from tidings.pipeline.storage_paths import StoragePath
from tidings.segments.arrow_schema import arrow_schema
from tidings.segments.names import SegmentName
from tidings.segments.reader import open_bytes

ERROR = "error"
SEGMENTS_PER_TASK = 64
BATCH_BYTES = 16 << 20


def segment_rows(spark: SparkSession, places: list[StoragePath], table: Table) -> DataFrame:
    """Rows of the clean table, with a column `error`; a segment that cannot be used has one row, with the reason."""
    slices = min(len(places), max(parallelism(spark), len(places) // SEGMENTS_PER_TASK))
    asked = spark.createDataFrame([(place.uri,) for place in places], "uri string").repartition(slices)
    return asked.mapInArrow(partial(_read, table=table.name), _schema(table))


def _schema(table: Table) -> t.StructType:
    """All columns may be null: a row with an error has nothing else."""
    fields = spark_schema(CLEAN[table.name]).fields
    return t.StructType([t.StructField(one.name, one.dataType) for one in fields]).add(ERROR, "string")


def _read(batches: Iterator[pa.RecordBatch], table: str) -> Iterator[pa.RecordBatch]:
    """Runs on a worker."""
    types = arrow_schema(CLEAN[table]).remove_metadata().append(pa.field(ERROR, pa.string()))
    types = pa.schema([pa.field(one.name, one.type) for one in types])
    for batch in batches:
        for uri in batch.column("uri").to_pylist():
            place = StoragePath(uri)
            try:
                rows = verified(place, TABLES[table])
            except StoreError as error:
                columns = {"segment": [place.name], ERROR: [str(error)]}
                nothing = {one.name: pa.nulls(1, one.type) for one in types}
                yield pa.RecordBatch.from_pydict({**nothing, **columns}, types)
                continue
            origin = {"segment": pa.repeat(place.name, len(rows)), "position": pa.array(range(len(rows)), pa.int64())}
            columns = dict(zip(rows.column_names, rows.columns, strict=True)) | origin
            made = pa.table({**columns, ERROR: pa.nulls(len(rows), pa.string())}).select(types.names).cast(types)
            yield from made.to_batches(max(1, BATCH_BYTES * len(rows) // max(made.nbytes, 1)))


def verified(place: StoragePath, table: Table) -> pa.Table:
    """The rows of a segment; StoreError if it is damaged, or cannot be read."""
    name = SegmentName.parse(place.name)
    assert name is not None
    try:
        with open_bytes(place.read(), name, place.uri, table) as file:
            return file.read()  # every page against its checksum
    except (pa.ArrowException, OSError) as error:
        raise StoreError("E_STORE_DAMAGED", f"{place.uri}: {error}") from None
