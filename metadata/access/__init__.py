"""Access rules, and fast search among many."""
