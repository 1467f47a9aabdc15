"""Which quota holds for a client, and the windows in which it is measured."""
