"""Tidings: a content-based publish/subscribe broker network you can reason about."""

__version__ = "0.1.0"
