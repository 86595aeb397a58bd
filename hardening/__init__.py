"""Campaigns that try to break Tidings; not part of the package. Run from the root of a checkout."""
