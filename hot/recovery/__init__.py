"""Opens a log after any stop: finds damage, sets it aside, derives lost state again."""
