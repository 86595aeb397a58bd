"""Segments on disk: append-only Parquet files in the layout that brokers, simulator and pipeline share."""
