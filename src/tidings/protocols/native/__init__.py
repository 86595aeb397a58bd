"""The native protocol: frames, requests, broker and client sessions."""
