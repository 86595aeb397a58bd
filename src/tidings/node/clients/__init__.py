"""Client side of a node: sessions, requests, subscriptions, consumers, transactions."""
