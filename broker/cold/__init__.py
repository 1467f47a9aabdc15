"""Reads from the bucket: the cold path of a fetch, its chunks and its cache."""
