"""The server's assignors of consumer groups (KIP-848)."""
