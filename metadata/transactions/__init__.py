"""Transactions: their producers, their partitions and their ends, as pure state machines."""
