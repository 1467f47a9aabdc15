"""The edge: sockets, dispatch, API handlers, partitions, workers, HTTP; built and taken down as one broker."""
