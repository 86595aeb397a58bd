"""Client connections of a broker: listeners, sockets, limits, output."""
