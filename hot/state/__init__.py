"""State derived from the batches of a log: producers, leader epochs, checks of an append."""
