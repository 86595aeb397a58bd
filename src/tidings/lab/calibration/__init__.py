"""Calibrates the cost model of `tidings.capacity` on a running broker, and checks it against scenarios held out."""
