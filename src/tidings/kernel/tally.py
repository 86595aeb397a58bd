"""The kernel's tally: what a replay counts of its matches, in one pass."""

from tidings._kernel import Tally

__all__ = ["Tally"]
