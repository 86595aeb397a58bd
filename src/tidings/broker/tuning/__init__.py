"""Self-tuning of a broker: read moderation, quick acknowledgement, garbage collection, capacity."""
