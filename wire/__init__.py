"""Bytes and values: frames, messages, record batches, error codes. Imports nothing of ours and does no I/O."""
