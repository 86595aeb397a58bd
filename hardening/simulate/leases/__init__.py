"""Processes that share a store in a database, of which one has the lease: simulated."""
