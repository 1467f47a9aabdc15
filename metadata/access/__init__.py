"""Access rules and how they are found among many."""
