"""A partition's manifest: entries, pages, history, leases, and the life of a range. Pure but for reading and writing it."""
