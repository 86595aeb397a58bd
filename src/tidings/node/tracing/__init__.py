"""Recording and tracing of messages at a node."""
