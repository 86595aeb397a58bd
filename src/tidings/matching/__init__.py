"""Who wants this message: the matcher's face, a plain reference, and the kernel's index behind the same face."""

from tidings.matching.indexed import IndexedMatcher, LinearMatcher
from tidings.matching.matcher import Matcher, Matches, per_message
from tidings.matching.scan import ScanMatcher

__all__ = ["IndexedMatcher", "LinearMatcher", "Matcher", "Matches", "ScanMatcher", "per_message"]
