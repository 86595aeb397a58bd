"""Drawings of reconstructed paths."""
