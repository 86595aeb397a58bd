"""The link between two brokers: state machine, greeting, send window, and the set of all links."""
