"""Explains what a network of brokers does: where messages go, what interests cost, what comes in vain."""
