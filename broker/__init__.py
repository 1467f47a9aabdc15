"""The edge: sockets, dispatch, API handlers, partitions, workers, HTTP and the command line."""
