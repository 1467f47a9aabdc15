"""Measured cells: a file for each cell of the table, or for a family of them."""
