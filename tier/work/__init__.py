"""Commands carried out in a worker process: uploads, merges, removals, copies."""
