"""The embedded store: a log of checksummed batches in one SQLite file."""
