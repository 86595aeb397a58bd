"""Message tracking: Bloom-filter histories of which message went where, and the reconstruction of a message's path."""
