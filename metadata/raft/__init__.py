"""The quorum's Raft with pull (KIP-595, KIP-853, KIP-996): one node as a pure state machine."""
