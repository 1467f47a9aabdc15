"""Transactions of every transactional id, from begin to end, as pure state machines."""
