"""The kernel's exact matcher and its scan, over encoded predicates: the engines behind `tidings.matching`."""

from tidings._kernel import LinearMatcher, Matcher

__all__ = ["LinearMatcher", "Matcher"]
