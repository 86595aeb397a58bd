"""Stores that keep messages across restarts."""
