"""Offline work on a data directory: restoring it from the bucket, adopting another bucket."""
