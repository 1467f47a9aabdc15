"""Chooses the next work and forecasts its cost. Pure."""
