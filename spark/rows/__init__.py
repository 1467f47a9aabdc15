"""Bytes of a segment object to columns of rows."""
