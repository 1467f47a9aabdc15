"""The surroundings of a process: Hadoop settings, memory, the garbage collector."""
