"""Actors on the broker: clients of every kind, the administrator, and the faults."""
