"""Keeps this broker registered: its registration, its heartbeats, its controlled shutdown, and the way to the active controller."""
