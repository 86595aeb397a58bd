"""Benchmarks of Tidings: python -m bench.NAME. Results are kept in bench/results."""
