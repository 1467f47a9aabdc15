"""The largest legal request of every API, for the cell that measures turns of the event loop."""
