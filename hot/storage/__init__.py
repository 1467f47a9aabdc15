"""Files: the port to the file system, syncs, checkpoints, removal."""
