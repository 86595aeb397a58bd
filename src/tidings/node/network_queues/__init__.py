"""Queues of the network: each is kept by one broker, its home, and used at all of them."""
