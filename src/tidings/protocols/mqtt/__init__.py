"""MQTT 3.1.1 and 5.0: codec, and the translation of a connection into native frames."""
