"""HTTP pages of a broker: metrics, health, network, console."""
