"""Advertisement-based routing on a tree, with five ways to treat covered subscriptions (docs/covering.md)."""

from tidings.routing.covering.machine import CoveringMachine
from tidings.routing.covering.policies import POLICIES, make_policy

__all__ = ["POLICIES", "CoveringMachine", "make_policy"]
