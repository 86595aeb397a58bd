"""Publishing and subscribing over HTTP: JSON in requests, server-sent events as the stream of messages."""
