"""The time of day as messages have it: asked for several times a message, where a function in Python would be felt."""

from tidings._kernel import now_ms

__all__ = ["now_ms"]
