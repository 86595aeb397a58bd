"""Contract checks: the same random inputs against every implementation of a structure."""

from tidings.testing.codec import check_codec
from tidings.testing.forwarder import check_forwarder
from tidings.testing.matcher import check_matcher
from tidings.testing.matrix import check_matrix
from tidings.testing.program import check_program
from tidings.testing.store import check_store

__all__ = ["check_codec", "check_forwarder", "check_matcher", "check_matrix", "check_program", "check_store"]
