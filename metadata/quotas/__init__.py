"""Quotas: resolution for a client, and the windows in which usage is measured."""
