"""Exact, discrete-time and simulated queues: references for the waiting times of `tidings.capacity`."""
