"""Spark pipeline over the records of brokers, lab and simulator: tables, jobs, and the data source `tidings`."""
