"""Opening a log after any stop: what is sound, what is damaged, what is set aside."""
