"""Unicast routing: the interface, link-state and distance-vector protocols."""
