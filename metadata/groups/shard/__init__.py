"""One partition of ``__consumer_offsets``: its groups, and the routing of requests to them."""
