"""Facts of the surrounding process: Hadoop settings, memory, the garbage collector."""
