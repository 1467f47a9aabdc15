"""Turns a command and an image into records."""
