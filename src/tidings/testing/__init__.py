"""Contract checks: the same random inputs against every implementation of a structure."""

from tidings.testing.contracts.codec import check_codec
from tidings.testing.contracts.forwarder import check_forwarder
from tidings.testing.contracts.matcher import check_matcher
from tidings.testing.contracts.matrix import check_matrix
from tidings.testing.contracts.program import check_program
from tidings.testing.contracts.store import check_store

__all__ = ["check_codec", "check_forwarder", "check_matcher", "check_matrix", "check_program", "check_store"]
