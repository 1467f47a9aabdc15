"""Incremental fetch sessions: the partitions that each still owes its consumer (KIP-227)."""
