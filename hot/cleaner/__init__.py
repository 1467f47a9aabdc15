"""Compaction: which segments to clean, which records stay, and the swap of the files."""
