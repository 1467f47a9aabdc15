"""Figures and verification of an archive, here or on Spark."""
