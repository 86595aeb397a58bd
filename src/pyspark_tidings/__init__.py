"""Registers the data source `tidings` with Spark, which loads every package whose name begins with `pyspark_`."""

from tidings.pipeline.source import TidingsSource as DefaultSource

__all__ = ["DefaultSource"]
