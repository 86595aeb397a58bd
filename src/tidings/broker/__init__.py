"""The asyncio driver: configuration, sockets, the SQLite store, security, metrics."""
