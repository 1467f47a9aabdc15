"""Measurements: what stratalog costs beside small C servers that speak the same bytes."""
