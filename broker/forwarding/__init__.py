"""Requests that the active controller decides, on their way from a broker to it and back (KIP-590)."""
