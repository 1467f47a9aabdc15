"""Requests that are answered without decoding them. A shortcut skips decoding and nothing else."""
