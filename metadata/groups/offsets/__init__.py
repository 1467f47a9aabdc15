"""Committed offsets: commits, fetches, expiry, and those inside transactions."""
