"""Helpers that tests and campaigns share."""
