"""STOMP 1.0 to 1.2: frames, session, subscriptions."""
