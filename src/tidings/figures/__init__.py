"""Plots and drawings of results."""
