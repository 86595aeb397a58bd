"""The kernel's ring of blocks: what a load generator sends, faster than any server can read it."""

from tidings._kernel import BlockRing

__all__ = ["BlockRing"]
