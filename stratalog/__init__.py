"""stratalog: Kafka topics that never fill a disk.

The rooms are ``wire`` (bytes and values), ``hot`` (the local log), ``tier`` (the archive in a bucket),
``metadata`` (pure decisions), ``broker`` (the edge) and ``spark`` (reading the archive without a broker).
"""

__version__ = "0.1.0"
