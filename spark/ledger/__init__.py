"""Records of a backfill's output: runs, spans, folders, files, and the table they belong to."""
