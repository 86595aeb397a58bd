"""Broker-to-broker control messages, effects, unicast, and the routing schemes. Pure: `now` and `rng` are arguments."""
