"""Capacity models: processing time, service time, waiting, batching, replication, planning."""
