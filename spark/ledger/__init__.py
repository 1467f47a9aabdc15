"""The books of a backfill: runs, spans, folders, files, and the table they belong to."""
