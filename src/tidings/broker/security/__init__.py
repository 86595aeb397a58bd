"""Authentication, authorization and TLS of a broker."""
