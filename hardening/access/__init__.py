"""Access rules tried by every protocol."""
