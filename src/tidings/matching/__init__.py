"""Matching of messages to subscribers: the matcher interface, and the kernel's matchers."""

from tidings.matching.indexed import IndexedMatcher, LinearMatcher
from tidings.matching.matcher import Matcher, Matches, per_message

__all__ = ["IndexedMatcher", "LinearMatcher", "Matcher", "Matches", "per_message"]
