"""Experiments of the B-DRP paper: encodings, scale-out, large networks, hierarchy."""
