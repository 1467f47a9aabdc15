"""Drives the metadata log: commands in turns, sessions of brokers, a controller's duties, settings that change."""
