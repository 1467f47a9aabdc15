"""Drives the metadata quorum: its log, its snapshots and its messages to other nodes."""
