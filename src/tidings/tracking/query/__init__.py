"""Queries over recorded histories: archives, path reconstruction, answers as JSON and bytes."""
