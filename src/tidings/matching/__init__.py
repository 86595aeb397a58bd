"""Matching of messages to subscribers: the matcher interface, a plain reference, and the kernel's index."""

from tidings.matching.indexed import IndexedMatcher, LinearMatcher
from tidings.matching.matcher import Matcher, Matches, per_message
from tidings.matching.scan import ScanMatcher

__all__ = ["IndexedMatcher", "LinearMatcher", "Matcher", "Matches", "ScanMatcher", "per_message"]
