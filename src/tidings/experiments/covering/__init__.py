"""Experiments of the covering paper: pruning sweeps, mobile subscribers, real processes."""
