"""Cold reads: the cache of chunks, read-ahead, budgets, look-ups by time."""
