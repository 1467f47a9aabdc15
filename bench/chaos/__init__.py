"""Nodes of a cluster are killed at random under clients, and then everything that was answered is looked for."""
