"""WebSocket framing (RFC 6455), broker side."""
