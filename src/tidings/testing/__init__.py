"""Contract checks: the same random inputs against every implementation of a structure."""

from tidings.testing.matrix import check_matrix

__all__ = ["check_matrix"]
