"""Topology graphs and generators, the link state machine, membership. Pure: time and chance are arguments."""
