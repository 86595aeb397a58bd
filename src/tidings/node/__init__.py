"""The whole broker as one machine: requests and messages in, effects out; no socket, clock or file."""
