"""The data source `tidings`: messages that a broker retains as rows, rows as messages.

    spark.read.format("tidings").options(url="tidings://127.0.0.1:7300", subscription="audit").load()
    spark.readStream.format("tidings").options(url=…, subscription="audit", destination="ticks.>").load()
    rows.write.format("tidings").options(url=…, destination="alerts").mode("append").save()

Spark finds it through the package `pyspark_tidings`. docs/pipeline.md lists the options. `register` gives the streams
that are defined next an environment of their own.
"""

import sys
from collections.abc import MutableMapping
from types import FrameType

from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from tidings.pipeline.session import PYTHON
from tidings.pipeline.source.event_columns import event_schema
from tidings.pipeline.source.options import BrokerAccess, ReadOptions, WriteOptions
from tidings.pipeline.source.reader import BatchReader, PushingReader, StreamReader
from tidings.pipeline.source.row_writer import BatchWriter, StreamWriter
from tidings.pipeline.source.rows import DEFAULT_SCHEMA

_PUSHDOWN_WORKER = "data_source_pushdown_filters.py"


class TidingsSource(DataSource):
    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)

    @classmethod
    def name(cls) -> str:
        return "tidings"

    def schema(self) -> StructType:
        name = self.options.get("eventType", "")
        return event_schema(BrokerAccess.of(self.options), name) if name else DEFAULT_SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        # Spark refuses a reader that can push filters where that is switched off (spark.sql.python.filterPushdown).
        kind = PushingReader if _pushing() else BatchReader
        return kind(ReadOptions.of(self.options), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        return StreamReader(ReadOptions.of(self.options), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        return BatchWriter(WriteOptions.of(self.options, overwrite), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        return StreamWriter(WriteOptions.of(self.options, overwrite), schema)


def register(spark: SparkSession) -> None:
    """Registers the source again in a session, with push-down of filters; call it before each of several streams.

    Spark keeps one map of environment variables for each registration of a source. Starting a worker writes to it, and
    a stream that is started at that moment serialises it, which fails if it grows meanwhile. Registered again, the
    source has another map; streams that were defined before keep theirs. Its Python is then `spark.pyspark.python`.
    """
    python = spark.conf.get(PYTHON, None)
    context = getattr(spark, "sparkContext", None)  # not of Spark Connect, whose server chooses
    if python and context is not None:
        context.pythonExec = python
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    spark.dataSource.register(TidingsSource)


def _pushing() -> bool:
    """Reports whether Spark plans this read with push-down: then the caller is its planning worker."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if str(frame.f_globals.get("__file__", "")).endswith(_PUSHDOWN_WORKER):
            return True
        frame = frame.f_back
    return False
