"""Health, metrics, the page, and steering of the tier over HTTP."""
