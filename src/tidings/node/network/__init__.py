"""Network side of a node: links, store-and-forward, relays, scheme forwarding."""
