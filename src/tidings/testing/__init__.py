"""Contract checks: the same random inputs against every implementation of a structure."""

from tidings.testing.store import check_store

__all__ = ["check_store"]
