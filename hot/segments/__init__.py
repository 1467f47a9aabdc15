"""Segments, their indexes, and searches for batches in them."""
