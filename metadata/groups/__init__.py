"""Consumer groups: members, assignments and committed offsets, as pure state machines."""
