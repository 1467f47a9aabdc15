"""The commands that run on Spark or on an archive without a broker."""
