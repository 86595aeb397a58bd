"""Clients at the limits of docs/limits.md, and what an innocent client notices of them."""
