"""Spark's data source: options, plan, fetch, batch and stream readers."""
