"""Writes to the bucket: drives the archive of each led partition, and compares log and archive."""
