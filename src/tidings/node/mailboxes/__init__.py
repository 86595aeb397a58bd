"""Mailboxes of a node: storing, dispatch, expiry, dead letters, back-pressure, journal."""
