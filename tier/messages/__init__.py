"""Commands to a worker, and its reports."""
