"""Controlled flooding, the scheme to compare with."""
