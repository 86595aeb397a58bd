"""Planning of tracking parameters."""
