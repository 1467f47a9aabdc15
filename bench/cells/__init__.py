"""The cells of the benchmark table: a file for each, or for a family of them."""
