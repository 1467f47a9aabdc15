"""Clusters of several nodes on one machine, each a process of its own: to try things out, and for tests."""
