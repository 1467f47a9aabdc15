"""Transactions: who has one open, where, and how it ends, as pure state machines."""
