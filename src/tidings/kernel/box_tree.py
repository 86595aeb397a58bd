"""The kernel's tree of boxes: candidates for covering and intersection, without looking at all filters."""

from tidings._kernel import BoxTree

__all__ = ["BoxTree"]
