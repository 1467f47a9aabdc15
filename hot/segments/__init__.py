"""Segments, their indexes, and finding a batch in them."""
