"""A segment object: its layout, writing and reading."""
