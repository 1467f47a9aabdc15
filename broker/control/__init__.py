"""Drives the metadata log: commands in turns, snapshots, settings that change while the broker runs."""
