"""Drivers of the group and the transaction coordinator: logs, timers, answers."""
