"""``stratalog.open``: rows of an archive for Python programs without Spark."""
