"""Links to other nodes of the cluster: connections, requests in flight, back-off."""
