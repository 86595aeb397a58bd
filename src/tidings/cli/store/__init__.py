"""`tidings store`: stores of messages."""
