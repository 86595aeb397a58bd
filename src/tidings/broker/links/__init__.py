"""Sockets and timers of a broker's links to other brokers."""
