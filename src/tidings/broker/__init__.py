"""The asyncio driver of a node: sockets, TLS, the store's thread, configuration, security, metrics."""
