"""`tidings plan`: capacity, encoding and tracking parameters."""
