"""Compiled steps of the decoder of `stratalog.spark`. Optional: without it array code gives the same rows."""
