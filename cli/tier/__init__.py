"""``stratalog tier``: status, plans, settings and care of the archive."""
