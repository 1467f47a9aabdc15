"""The actors of a run: clients of every kind, the administrator, and the faults."""
