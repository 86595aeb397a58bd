"""The client's connection: transport, reconnection, outbox, pending requests."""
