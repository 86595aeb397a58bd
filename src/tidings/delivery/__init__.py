"""Mailboxes, consumers, acknowledgement, transactions, and the store they rest on."""
