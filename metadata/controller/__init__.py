"""A command and an image in, records out."""
