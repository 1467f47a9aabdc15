"""Moves of replicas between the log directories of this broker: copied while they are served, then swapped."""
