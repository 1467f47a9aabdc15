"""Read-only topics: an archive as it was at a cut or a time, and mounted buckets."""
