"""Experiments of the Hermes paper, E1 to E4."""
