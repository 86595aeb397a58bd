"""Where Spark finds the data source `tidings` by itself: it looks into every package whose name begins like this."""

from tidings.pipeline.source import TidingsSource as DefaultSource

__all__ = ["DefaultSource"]
