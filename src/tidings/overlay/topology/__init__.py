"""Topology graphs: generators, drawing, positions in space, and the TOML form."""
