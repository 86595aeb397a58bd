"""Spark over what brokers, lab and simulator have recorded: tables, jobs, and the data source `tidings`."""
