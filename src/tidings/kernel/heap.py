"""The process's allocator, as a broker sets it at its start."""

from tidings._kernel import keep_large_blocks

__all__ = ["keep_large_blocks"]
