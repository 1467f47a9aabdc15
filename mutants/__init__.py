"""The bugs of `docs/safety.md`, planted one at a time to see the tests catch them."""
