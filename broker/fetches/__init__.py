"""A fetch that may wait: attempts, sessions, and full fetches without a session."""
