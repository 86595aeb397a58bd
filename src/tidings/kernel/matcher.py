"""The kernel's exact matcher and its scan, over encoded predicates: the engines behind `tidings.matching`, and the
budget of steps that a message has there (docs/limits.md, "Cost of a message")."""

from tidings._kernel import FILTER_STEPS, MESSAGE_STEPS, Budget, LinearMatcher, Matcher, like

__all__ = ["FILTER_STEPS", "MESSAGE_STEPS", "Budget", "LinearMatcher", "Matcher", "like"]
