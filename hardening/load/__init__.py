"""Load that a broker must bear."""
