"""Compaction: chooses segments, filters records, swaps the files."""
