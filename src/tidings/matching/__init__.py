"""Which subscriptions does a message match: the interface, a plain scan, the indexed matcher."""
