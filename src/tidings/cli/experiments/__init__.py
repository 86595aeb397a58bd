"""Commands that repeat the papers' experiments."""
