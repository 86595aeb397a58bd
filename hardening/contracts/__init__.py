"""Contract checks: the same random inputs against every implementation of a structure."""
