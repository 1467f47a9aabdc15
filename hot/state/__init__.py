"""The state that a log's batches add up to: producers, leader epochs, checks of an append."""
