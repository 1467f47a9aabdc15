"""One partition of ``__consumer_offsets``: its groups, and the way of a request to them."""
