"""Where the replicas of a cluster should be: plans of moves, and the order in which they may be made."""
