"""Copying partitions from their leaders, and asking the controller for other in-sync sets."""
